//! `countersign dev --aws`: everything in one process, with its runs on a local AWS, as somebody who tries it out meets it.
#![expect(clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use countersign_e2e::{PATIENCE, Running, Site, until};
use serde_json::Value;
use tempfile::TempDir;

/// A person at a shell: a directory of their own, the program on their path, and where the local AWS is.
struct Shell {
    home: TempDir,
    site: Site,
}

impl Shell {
    fn new() -> Self {
        let site = Site { dynamodb: std::env::var("COUNTERSIGN_DYNAMODB").ok(), ..Site::from_environment() };
        Self { home: TempDir::new().unwrap(), site }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.home.path()).env("XDG_CONFIG_HOME", self.home.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.site.programs.display())).env("USER", "ada");
        command.env("COUNTERSIGN_AWS", &self.site.aws).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command.envs(self.site.dynamodb.iter().map(|there| ("COUNTERSIGN_DYNAMODB", there)));
        command.stdin(Stdio::null());
        command
    }

    /// Types `line` in the name of `person`.
    fn types(&self, person: &str, line: &str) -> Output {
        let keys = std::fs::read(self.home.path().join("d/keys.json")).unwrap();
        let keys: Value = serde_json::from_slice(&keys).unwrap();
        let mut command = self.command(Path::new("/bin/sh"));
        command.env("COUNTERSIGN_API_KEY", keys[person].as_str().unwrap());
        command.args(["-c", line]).output().unwrap()
    }

    /// The same; what it says, if it is done.
    fn does(&self, person: &str, line: &str) -> String {
        let Output { status, stdout, stderr } = self.types(person, line);
        assert!(status.success(), "{line}: {status}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// Waits until `line` can be done.
    async fn until_done(&self, person: &str, line: &str) {
        until(line, PATIENCE, async || self.types(person, line).status.success().then_some(())).await;
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.home.path().join(name)).unwrap()
    }
}

fn start(shell: &Shell) -> Running {
    let mut command = shell.command(&shell.site.programs.join("countersign"));
    Running::start(command.args(["dev", "--aws", "--dir", "d", "--port", "0", "--json"]))
}

/// `verb`, said to it.
fn line(dev: &Running, verb: &str) -> String {
    format!("countersign --server {} {verb}", dev.told("console"))
}

#[tokio::test]
async fn somebody_tries_it_out_on_a_local_aws_and_finds_the_run_and_its_evidence_again() {
    let shell = Shell::new();
    let dev = start(&shell);
    assert!(dev.told("store").contains("on AWS"), "{}", dev.told("store"));
    let told = shell.does("ada", &format!("{} --json", dev.told("first_command")));
    let started: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let run = started["run"].as_str().unwrap();

    let asked = line(&dev, "approval list --mine --json");
    until("the question", PATIENCE, async || shell.does("grace", &asked).contains(run).then_some(())).await;
    let own = shell.types("ada", &line(&dev, &format!("approval approve {run} assign")));
    assert_eq!(own.status.code(), Some(1), "whoever asked for it does not approve it");
    shell.does("grace", &line(&dev, &format!("approval approve {run} assign --reason fine")));
    let heard = shell.does("grace", &line(&dev, &format!("run watch {run}")));
    assert!(heard.contains("approved by grace: fine") && heard.contains("is succeeded"), "{heard}");

    shell.until_done("grace", &line(&dev, &format!("bundle get {run} --out first.bundle"))).await;
    shell.does("grace", "countersign bundle verify first.bundle --key d/dev.db.pub");
    assert_eq!(dev.leaves(), Some(0));
    assert!(!shell.home.path().join("d/dev.db").exists(), "nothing is kept in a file");

    let again = start(&shell);
    let shown = shell.does("grace", &line(&again, &format!("run show {run} --json")));
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["status"], "succeeded");
    shell.does("grace", &line(&again, &format!("bundle get {run} --out again.bundle")));
    assert_eq!(shell.file("again.bundle"), shell.file("first.bundle"));
    assert_eq!(again.leaves(), Some(0));
}
