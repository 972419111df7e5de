//! A person at a shell: a directory of their own, and the program on their path.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Everything that is waited for takes well under a second; a busy machine gets more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A directory with a store in it, and whoever types there.
pub(crate) struct Shell {
    home: TempDir,
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A worker that is running.
pub(crate) struct Worker(Child);

impl Shell {
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

    /// The program with `args`, separated by blanks; nothing of the environment of the tests shows.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
        command.args(args.split_whitespace()).current_dir(self.home.path());
        command.env_remove("COUNTERSIGN_STORE").env_remove("RUST_LOG").env("USER", "ada");
        command.env_remove("COUNTERSIGN_PROFILE").env_remove("COUNTERSIGN_API_KEY");
        command.env_remove("COUNTERSIGN_AWS").env_remove("COUNTERSIGN_TABLE");
        command.env("XDG_CONFIG_HOME", self.path("config"));
        command
    }

    pub(crate) fn run(&self, args: &str) -> Answer {
        Answer::of(self.command(args).output().unwrap())
    }

    /// The same with one more argument, as it is.
    pub(crate) fn run_with(&self, args: &str, last: &str) -> Answer {
        Answer::of(self.command(args).arg(last).output().unwrap())
    }

    pub(crate) fn run_on(&self, args: &str, stdin: &[u8]) -> Answer {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that refuses what is too large stops reading; that is its right.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Answer::of(child.wait_with_output().unwrap())
    }

    /// A line that the program suggested, typed as it is.
    pub(crate) fn type_in(&self, line: &str) -> Answer {
        let program = Path::new(env!("CARGO_BIN_EXE_countersign"));
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.home.path()).env("PATH", path).env("USER", "ada");
        shell.env("XDG_CONFIG_HOME", self.path("config")).env_remove("COUNTERSIGN_PROFILE");
        Answer::of(shell.env_remove("COUNTERSIGN_STORE").output().unwrap())
    }

    /// Starts a run of the workflow; gives back its id.
    pub(crate) fn start(&self, workflow: &str) -> String {
        self.write("workflow.yaml", workflow);
        let answer = self.run("run start workflow.yaml --json").expect(0).json();
        answer["run"].as_str().unwrap().to_owned()
    }

    /// Everything about a run.
    pub(crate) fn show(&self, run: &str) -> Value {
        self.run(&format!("run show {run} --json")).expect(0).json()
    }

    /// Works until nothing is left to do.
    pub(crate) fn work(&self, options: &str) {
        self.run(&format!("worker --until-idle {options}")).expect(0);
    }

    /// A worker that runs until it is told otherwise.
    pub(crate) fn worker(&self, options: &str) -> Worker {
        let log = std::fs::File::create(self.path("worker.log")).unwrap();
        Worker(self.command(&format!("worker {options}")).stderr(log).spawn().unwrap())
    }

    /// Waits until the run stands as `wanted` says.
    pub(crate) fn until(&self, run: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let seen = self.show(run);
            if wanted(&seen) {
                return seen;
            }
            assert!(began.elapsed() < PATIENCE, "{seen:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Answer {
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

    /// The same, if it ended with `code`.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// The same, if it says `words`, on standard output or error.
    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.out.contains(words) || self.err.contains(words), "{words:?} is not in {self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error, as programs read it.
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

    /// How it ended: its exit code, or nothing if a signal ended it.
    pub(crate) fn ended(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "the worker does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
