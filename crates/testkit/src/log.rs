//! The log of a test.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default};

/// The JSON lines that the thread of a test has logged.
#[derive(Debug, Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    /// Captures lines up to `level` until the guard is dropped.
    pub fn capture(level: Level) -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().json().with_max_level(level);
        let guard = set_default(lines.with_writer(move || writer.clone()).finish());
        (log, guard)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    pub fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The fields of every line.
    pub fn fields(&self) -> Vec<Value> {
        self.lines().into_iter().map(|mut line| line["fields"].take()).collect()
    }
}
