//! What a person is shown of a run.
//!
//! [`Seen`] is a run as the ledger had it at one moment; the modules below make words and JSON of it. They
//! are pure: nothing here reads the store or the time.

mod compensation;
mod event;
mod history;
mod json;
mod text;
mod waiting;

#[cfg(test)]
mod tests;

use domain::{Approval, Receipt, RunKey, Timestamp};
use engine::{Engine, RunView};
use store::Store;

use crate::error::CliError;
use crate::hint::Hints;

pub(crate) use event::{event_json, event_line};
pub(crate) use history::{History, TryEnd};
pub(crate) use json::run_json;
pub(crate) use text::{counted, run_text, steps_table, tool};
pub(crate) use waiting::{Waiting, Way, waiting};

/// A run as the ledger had it at one moment.
pub(crate) struct Seen {
    /// The run, its steps and its events.
    pub(crate) view: RunView,
    /// The receipt of an effect that is under way, or whose outcome nobody knows.
    pub(crate) open: Option<Receipt>,
    /// When it was looked at.
    pub(crate) now: Timestamp,
    /// Commands that can be typed next.
    pub(crate) hints: Hints,
}

impl Seen {
    /// Looks at `run`.
    pub(crate) async fn look<S: Store>(
        engine: &Engine<S>,
        run: &RunKey,
        hints: Hints,
    ) -> Result<Self, CliError> {
        let view = engine.inspect(run).await?;
        let open = match waiting::open_intent(&view.record) {
            Some(intent) => engine.store().receipt(&run.tenant, &intent.key).await?,
            None => None,
        };
        Ok(Self { view, open, now: engine.now(), hints })
    }

    /// The newest request for approval.
    pub(crate) fn asked(&self) -> Option<&Approval> {
        self.view.approvals.last()
    }

    /// What happened to each step. Empty if the chain is broken: what cannot be verified is not shown.
    pub(crate) fn history(&self) -> History {
        let events = self.view.events.as_deref().unwrap_or_default();
        let record = &self.view.record;
        History::of(events, (record.at, &record.live))
    }
}
