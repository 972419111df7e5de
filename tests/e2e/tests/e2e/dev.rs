//! `countersign dev --aws`: everything in one process, with its runs on a local AWS, as a new user tries it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use countersign_e2e::{ServerProcess, TIMEOUT, TestConfig, wait_until};
use serde_json::Value;
use tempfile::TempDir;

/// A user's shell: a home directory, the program on the path, and the address of the local AWS.
struct Shell {
    home: TempDir,
    config: TestConfig,
}

impl Shell {
    fn new() -> Self {
        let config = TestConfig {
            dynamodb: std::env::var("COUNTERSIGN_DYNAMODB").ok(),
            ..TestConfig::from_environment()
        };
        Self { home: TempDir::new().unwrap(), config }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.home.path()).env("XDG_CONFIG_HOME", self.home.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.config.programs.display())).env("USER", "ada");
        command.env("COUNTERSIGN_AWS", &self.config.aws).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command.envs(self.config.dynamodb.iter().map(|there| ("COUNTERSIGN_DYNAMODB", there)));
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command line as `person`.
    fn run_as(&self, person: &str, line: &str) -> Output {
        let keys = std::fs::read(self.home.path().join("d/keys.json")).unwrap();
        let keys: Value = serde_json::from_slice(&keys).unwrap();
        let mut command = self.command(Path::new("/bin/sh"));
        command.env("COUNTERSIGN_API_KEY", keys[person].as_str().unwrap());
        command.args(["-c", line]).output().unwrap()
    }

    /// Like `run_as`; the command must succeed. Returns its standard output.
    fn run_ok(&self, person: &str, line: &str) -> String {
        let Output { status, stdout, stderr } = self.run_as(person, line);
        assert!(status.success(), "{line}: {status}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// Repeats `line` until it succeeds.
    async fn until_success(&self, person: &str, line: &str) {
        wait_until(line, TIMEOUT, async || self.run_as(person, line).status.success().then_some(())).await;
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.home.path().join(name)).unwrap()
    }
}

fn start(shell: &Shell) -> ServerProcess {
    let mut command = shell.command(&shell.config.programs.join("countersign"));
    ServerProcess::start(command.args(["dev", "--aws", "--dir", "d", "--port", "0", "--json"]))
}

/// The command line for `verb` against this server.
fn line(dev: &ServerProcess, verb: &str) -> String {
    format!("countersign --server {} {verb}", dev.output("console"))
}

#[tokio::test]
async fn dev_on_aws_keeps_runs_and_evidence_across_restarts() {
    let shell = Shell::new();
    let dev = start(&shell);
    assert!(dev.output("store").contains("on AWS"), "{}", dev.output("store"));
    let output = shell.run_ok("ada", &format!("{} --json", dev.output("first_command")));
    let started: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    let run = started["run"].as_str().unwrap();

    let list = line(&dev, "approval list --mine --json");
    wait_until("the approval", TIMEOUT, async || shell.run_ok("grace", &list).contains(run).then_some(()))
        .await;
    let own = shell.run_as("ada", &line(&dev, &format!("approval approve {run} assign")));
    assert_eq!(own.status.code(), Some(1), "the initiator cannot approve its own run");
    shell.run_ok("grace", &line(&dev, &format!("approval approve {run} assign --reason fine")));
    let watched = shell.run_ok("grace", &line(&dev, &format!("run watch {run}")));
    assert!(watched.contains("approved by grace: fine") && watched.contains("is succeeded"), "{watched}");

    shell.until_success("grace", &line(&dev, &format!("bundle get {run} --out first.bundle"))).await;
    shell.run_ok("grace", "countersign bundle verify first.bundle --key d/dev.db.pub");
    assert_eq!(dev.stop(), Some(0));
    assert!(!shell.home.path().join("d/dev.db").exists(), "no store file is written");

    let again = start(&shell);
    let shown = shell.run_ok("grace", &line(&again, &format!("run show {run} --json")));
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["status"], "succeeded");
    shell.run_ok("grace", &line(&again, &format!("bundle get {run} --out again.bundle")));
    assert_eq!(shell.file("again.bundle"), shell.file("first.bundle"));
    assert_eq!(again.stop(), Some(0));
}
