//! A server program that prints its addresses as JSON and keeps running.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running program. It is killed when this is dropped.
pub struct ServerProcess {
    child: Child,
    output: Value,
}

impl ServerProcess {
    /// Starts the program and reads the JSON line that it prints.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let output = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { child, output }
    }

    /// The value of `name` in that line.
    pub fn output(&self, name: &str) -> &str {
        self.output[name].as_str().unwrap_or_else(|| panic!("no {name} in {}", self.output))
    }

    /// Sends SIGTERM; returns the exit code.
    pub fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
