//! A program that says where it is and goes on running.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A program that runs; it is killed when this is dropped.
pub struct Running {
    child: Child,
    told: Value,
}

impl Running {
    /// Starts it, and reads what it says of itself.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { child, told }
    }

    /// What it says of this.
    pub fn told(&self, of: &str) -> &str {
        self.told[of].as_str().unwrap_or_else(|| panic!("{of}: {}", self.told))
    }

    /// Asks it to leave; its exit code.
    pub fn leaves(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have left already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
