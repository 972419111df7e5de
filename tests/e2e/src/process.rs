//! A worker process that can be killed or drained.

use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A worker process. It is killed when this is dropped.
pub struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// Starts `command`; its log goes to `log`.
    pub fn start(mut command: Command, log: impl Into<Stdio>) -> Self {
        let child = command.stdin(Stdio::null()).stdout(log).spawn();
        let child =
            child.unwrap_or_else(|error| panic!("{command:?}: {error}; `cargo xtask test` builds it"));
        Self { child }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, as ECS sends it.
    pub fn request_drain(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
