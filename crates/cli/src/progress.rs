//! Progress on standard error, drawn only if that is a terminal.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::context::Context;
use crate::error::CliError;
use crate::escape::sanitize;

/// Redraws the elapsed time.
const TICK: Duration = Duration::from_millis(250);

const TEMPLATE: &str = "[{bar:24}] {pos}/{len} {wide_msg} {elapsed}";

/// The progress bar of a run.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(steps: usize, context: &Context) -> Self {
        let target = if context.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        let characters = if context.env.utf8 { "█▌ " } else { "#> " };
        // If the template is invalid, the bar keeps the default style.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars(characters));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar }
    }

    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Sets the number of finished steps and the current position.
    pub(crate) fn set(&self, done: usize, at: &str) {
        self.bar.set_position(done as u64);
        self.bar.set_message(sanitize(at).replace('\n', " "));
    }

    /// Hides the bar while `print` writes.
    pub(crate) fn suspend(&self, print: impl FnOnce() -> Result<(), CliError>) -> Result<(), CliError> {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// One line that is overwritten while a command waits.
pub(crate) struct StatusLine {
    visible: bool,
    written: bool,
}

impl StatusLine {
    pub(crate) fn new(context: &Context) -> Self {
        Self { visible: !context.json && io::stderr().is_terminal(), written: false }
    }

    /// Replaces the text of the line.
    pub(crate) fn set(&mut self, text: &str) {
        if self.visible {
            self.written = true;
            // A failed write must not end the command.
            let _ = write!(io::stderr(), "\r{text} …\x1b[K");
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.written {
            let _ = writeln!(io::stderr());
        }
    }
}
