//! The error of an emulator that cannot be installed, started or stopped.

use std::path::Path;

/// A message for the user, with the fix if there is one.
#[derive(Debug)]
pub(crate) struct LocalError(String);

impl LocalError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(crate) fn message(&self) -> &str {
        &self.0
    }

    /// Appends the last lines of a log.
    pub(crate) fn with_log(self, log: &Path) -> Self {
        Self(format!("{}\n{}\n(full log: {})", self.0, last_lines(log), log.display()))
    }
}

/// Converts an I/O error of `action` on `path`.
pub(crate) fn io_error<'a>(action: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> LocalError + 'a {
    move |error| LocalError::new(format!("{action} {}: {error}", path.display()))
}

/// The number of log lines in an error: enough for the end of a Python traceback or the start of a Java one.
const LOG_LINES: usize = 15;

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<String> = text.lines().map(|line| format!("  | {line}")).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
