//! A bar that shows how far a run is, while somebody watches.
//!
//! It is drawn on standard error, and only if that is a terminal: what is piped elsewhere gets plain lines.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::context::Context;
use crate::error::CliError;
use crate::screen::harmless;

/// Often enough that the time is seen to pass.
const TICK: Duration = Duration::from_millis(250);

const TEMPLATE: &str = "[{bar:24}] {pos}/{len} {wide_msg} {elapsed}";

/// How far a run is.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// The bar of a run that has so many steps.
    pub(crate) fn new(steps: usize, context: &Context) -> Self {
        let target = if context.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
        let characters = if context.surroundings.utf8 { "█▌ " } else { "#> " };
        // A template that cannot be read leaves the bar as the library draws it.
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.progress_chars(characters));
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// So many steps are done, and this is what the run is at.
    pub(crate) fn stands(&self, done: usize, at: &str) {
        self.bar.set_position(done as u64);
        self.bar.set_message(harmless(at).replace('\n', " "));
    }

    /// Prints something, with the bar out of the way.
    pub(crate) fn aside(&self, print: impl FnOnce() -> Result<(), CliError>) -> Result<(), CliError> {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
