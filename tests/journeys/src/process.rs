//! A worker process that can be killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A worker process; it is killed when this is dropped.
pub struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// Starts `program` with nothing but `environment`.
    pub fn start(program: &Path, environment: &BTreeMap<String, String>) -> Self {
        let mut command = Command::new(program);
        command.env_clear().envs(environment).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn();
        let child = child
            .unwrap_or_else(|error| panic!("{}: {error}; `cargo xtask test` builds it", program.display()));
        Self { child }
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
