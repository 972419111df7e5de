//! `countersign dev --aws`: everything in one process, with its runs on a local AWS, as somebody who tries it out meets it.
#![expect(clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use countersign_journeys::{PATIENCE, Site, until};
use rustix::process::{Pid, Signal, kill_process};
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

/// The program, running; it is killed when this is dropped.
struct Dev {
    child: Child,
    told: Value,
}

impl Dev {
    fn start(shell: &Shell) -> Self {
        let mut command = shell.command(&shell.site.programs.join("countersign"));
        command.args(["dev", "--aws", "--dir", "d", "--port", "0", "--json"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { told: serde_json::from_str(&line).unwrap(), child }
    }

    fn told(&self, of: &str) -> &str {
        self.told[of].as_str().unwrap()
    }

    /// `verb`, said to it.
    fn line(&self, verb: &str) -> String {
        format!("countersign --server {} {verb}", self.told("console"))
    }

    fn leaves(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have left already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn somebody_tries_it_out_on_a_local_aws_and_finds_the_run_and_its_evidence_again() {
    let shell = Shell::new();
    let dev = Dev::start(&shell);
    assert!(dev.told("store").contains("on AWS"), "{}", dev.told);
    let told = shell.does("ada", &format!("{} --json", dev.told("first_command")));
    let started: Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
    let run = started["run"].as_str().unwrap();

    let asked = dev.line("approval list --mine --json");
    until("the question", PATIENCE, async || shell.does("grace", &asked).contains(run).then_some(())).await;
    let own = shell.types("ada", &dev.line(&format!("approval approve {run} assign")));
    assert_eq!(own.status.code(), Some(1), "whoever asked for it does not approve it");
    shell.does("grace", &dev.line(&format!("approval approve {run} assign --reason fine")));
    let heard = shell.does("grace", &dev.line(&format!("run watch {run}")));
    assert!(heard.contains("approved by grace: fine") && heard.contains("is succeeded"), "{heard}");

    shell.until_done("grace", &dev.line(&format!("bundle get {run} --out first.bundle"))).await;
    shell.does("grace", "countersign bundle verify first.bundle --key d/dev.db.pub");
    assert_eq!(dev.leaves(), Some(0));
    assert!(!shell.home.path().join("d/dev.db").exists(), "nothing is kept in a file");

    let again = Dev::start(&shell);
    let shown = shell.does("grace", &again.line(&format!("run show {run} --json")));
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["status"], "succeeded");
    shell.does("grace", &again.line(&format!("bundle get {run} --out again.bundle")));
    assert_eq!(shell.file("again.bundle"), shell.file("first.bundle"));
    assert_eq!(again.leaves(), Some(0));
}
