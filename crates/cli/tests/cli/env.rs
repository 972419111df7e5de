//! A temporary directory in which tests run the program.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Every wait takes well under a second, more on a busy machine.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

pub(crate) struct CliEnv {
    home: TempDir,
}

#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A worker process; killed when dropped.
pub(crate) struct Worker(Child);

impl CliEnv {
    pub(crate) fn new() -> Self {
        Self { home: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program with `args`, split at whitespace, and without the settings of the test environment.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(args.split_whitespace()).current_dir(self.home.path());
        command.env_remove("CI").env_remove("COUNTERSIGN_STORE").env_remove("RUST_LOG").env("USER", "ada");
        command.env_remove("COUNTERSIGN_PROFILE").env_remove("COUNTERSIGN_API_KEY");
        command.env_remove("COUNTERSIGN_EVIDENCE_KEY");
        command.env_remove("COUNTERSIGN_AWS").env_remove("COUNTERSIGN_TABLE");
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command
    }

    pub(crate) fn run(&self, args: &str) -> CommandOutput {
        CommandOutput::of(self.command(args).output().unwrap())
    }

    /// Runs it with the public keys in this file as the trusted ones.
    pub(crate) fn run_trusting(&self, keys: &str, args: &str) -> CommandOutput {
        CommandOutput::of(self.command(args).env("COUNTERSIGN_EVIDENCE_KEY", keys).output().unwrap())
    }

    /// Adds one argument without splitting it.
    pub(crate) fn run_with(&self, args: &str, last: &str) -> CommandOutput {
        CommandOutput::of(self.command(args).arg(last).output().unwrap())
    }

    pub(crate) fn run_on(&self, args: &str, stdin: &[u8]) -> CommandOutput {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program stops reading an oversized input, so the write may fail.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        CommandOutput::of(child.wait_with_output().unwrap())
    }

    /// Runs a suggested command with `sh`.
    pub(crate) fn run_in_shell(&self, line: &str) -> CommandOutput {
        let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.home.path()).env("PATH", path).env("USER", "ada");
        shell.env("XDG_CONFIG_HOME", self.path("config")).env_remove("COUNTERSIGN_PROFILE");
        CommandOutput::of(shell.env_remove("CI").env_remove("COUNTERSIGN_STORE").output().unwrap())
    }

    /// Starts a run of the workflow and returns its id.
    pub(crate) fn start(&self, workflow: &str) -> String {
        self.write("workflow.yaml", workflow);
        let answer = self.run("run start workflow.yaml --json").expect(0).json();
        answer["run"].as_str().unwrap().to_owned()
    }

    pub(crate) fn show(&self, run: &str) -> Value {
        self.run(&format!("run show {run} --json")).expect(0).json()
    }

    /// Runs a worker until it is idle.
    pub(crate) fn work(&self, options: &str) {
        self.run(&format!("worker --until-idle {options}")).expect(0);
    }

    /// Starts a worker in the background.
    pub(crate) fn worker(&self, options: &str) -> Worker {
        let log = std::fs::File::create(self.path("worker.log")).unwrap();
        Worker(self.command(&format!("worker {options}")).stderr(log).spawn().unwrap())
    }

    /// Waits until `condition` holds for the run.
    pub(crate) fn wait_until(&self, run: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let seen = self.show(run);
            if condition(&seen) {
                return seen;
            }
            assert!(began.elapsed() < WAIT_MAX, "{seen:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl CommandOutput {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let answer = Self {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        };
        assert!(!answer.err.contains("panicked"), "{answer:?}");
        answer
    }

    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Asserts that standard output or standard error contains `words`.
    #[track_caller]
    pub(crate) fn prints(self, words: &str) -> Self {
        assert!(self.out.contains(words) || self.err.contains(words), "{words:?} is not in {self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON error on standard error.
    #[track_caller]
    pub(crate) fn error(&self) -> Value {
        let error: Value =
            serde_json::from_str(&self.err).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        error["error"].clone()
    }
}

impl Worker {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the exit code; `None` if a signal ended the process.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < WAIT_MAX, "the worker does not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
