//! A line that says how far something is, while somebody waits for it.
//!
//! It is drawn on standard error, and only if that is a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use crate::context::Context;

/// How far something is.
pub(crate) struct SoFar {
    shown: bool,
    said: bool,
}

impl SoFar {
    pub(crate) fn new(context: &Context) -> Self {
        Self { shown: !context.json && io::stderr().is_terminal(), said: false }
    }

    /// Says it, in place of what was said before.
    pub(crate) fn say(&mut self, text: &str) {
        if self.shown {
            self.said = true;
            // A line that cannot be shown must not end what it tells of.
            let _ = write!(io::stderr(), "\r{text} …\x1b[K");
        }
    }
}

impl Drop for SoFar {
    fn drop(&mut self) {
        if self.said {
            let _ = writeln!(io::stderr());
        }
    }
}
