//! What keeps a stand-in from running.

use std::path::Path;

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Something could not be had on this machine; the text says the way out. Nobody's fault.
    Missing(String),
    /// Everything was there, and still it did not work.
    Failed(String),
}

impl Trouble {
    /// In words.
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::Missing(why) | Self::Failed(why) => why,
        }
    }

    /// With the end of a log, where the reason stands.
    pub(crate) fn with_log(self, log: &Path) -> Self {
        let told = |why: String| format!("{why}\n{}\n(all of it: {})", last_lines(log), log.display());
        match self {
            Self::Missing(why) => Self::Missing(told(why)),
            Self::Failed(why) => Self::Failed(told(why)),
        }
    }
}

/// A file or a directory of ours did not do what every file does.
pub(crate) fn on<'a>(doing: &'a str, path: &'a Path) -> impl Fn(std::io::Error) -> Trouble + 'a {
    move |error| Trouble::Failed(format!("{doing} {}: {error}", path.display()))
}

/// How much of a log is shown: a Python traceback's end, or a Java one's beginning.
const LINES_SHOWN: usize = 15;

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<String> = text.lines().map(|line| format!("  | {line}")).collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
