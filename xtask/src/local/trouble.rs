//! What keeps a stand-in from running.

use std::path::Path;

/// Why there is none, with the way out where there is one.
#[derive(Debug)]
pub(crate) struct Trouble(String);

impl Trouble {
    /// For this reason.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// In words.
    pub(crate) fn why(&self) -> &str {
        &self.0
    }

    /// With the end of a log, where the reason stands.
    pub(crate) fn with_log(self, log: &Path) -> Self {
        Self(format!("{}\n{}\n(all of it: {})", self.0, last_lines(log), log.display()))
    }
}

/// A file or a directory of ours did not do what every file does.
pub(crate) fn on<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> Trouble + 'a {
    move |error| Trouble::new(format!("{doing} {}: {error}", path.display()))
}

/// How much of a log is shown: a Python traceback's end, or a Java one's beginning.
const LINES_SHOWN: usize = 15;

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<String> = text.lines().map(|line| format!("  | {line}")).collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
