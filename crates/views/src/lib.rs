//! What people and programs are told of a run.
//!
//! [`Seen`] is a run as the ledger had it at one moment; the modules below make words and JSON of it. They
//! are pure: nothing here reads the store or the time.

mod canceled;
mod compensation;
mod event;
pub mod hint;
mod history;
mod json;
mod money;
mod refusal;
pub mod table;
mod text;
pub mod time;
pub mod timeline;
pub mod verdict;
mod waiting;
pub mod when;

#[cfg(test)]
mod tests;

use domain::{Approval, Receipt, RunId, RunKey, Timestamp};
use engine::{Dispatch, Engine, EngineError, RunView, TenantHandle};
use store::Store;

use crate::hint::Hints;

pub use canceled::canceled;
pub use event::{EventDocument, event_document, event_json, event_line};
pub use history::{History, TryEnd};
pub use json::{
    CanceledDocument, ChainDocument, CompensationDocument, CostDocument, LeaseDocument, RunDocument,
    StepDocument, TryDocument, UsageDocument, WaitDocument, WayDocument, run_document, run_json,
};
pub use money::money;
pub use refusal::refusal_in_words;
pub use text::{counted, document_text, run_text, steps_table, tool};
pub use waiting::{Waiting, Way, waiting};

/// A run as the ledger had it at one moment.
pub struct Seen {
    /// The run, its steps and its events.
    pub view: RunView,
    /// The receipt of an effect that is under way, or whose outcome nobody knows.
    pub open: Option<Receipt>,
    /// How the switch of dispatch stood; on, where that no longer matters.
    pub dispatch: Dispatch,
    /// When it was looked at.
    pub now: Timestamp,
    /// Commands that can be typed next.
    pub hints: Hints,
}

impl Seen {
    /// Looks at `run`.
    pub async fn look<S: Store>(engine: &Engine<S>, run: &RunKey, hints: Hints) -> Result<Self, EngineError> {
        let view = engine.inspect(run).await?;
        let open = match waiting::open_intent(&view.record) {
            Some(intent) => engine.store().receipt(&run.tenant, &intent.key).await?,
            None => None,
        };
        let over = view.record.status.is_terminal();
        let dispatch = if over { Dispatch::default() } else { engine.dispatch(&run.tenant).await? };
        Ok(Self { view, open, dispatch, now: engine.now(), hints })
    }

    /// Looks at a run of the tenant whose handle this is.
    pub async fn at<S: Store>(
        handle: &TenantHandle<S>,
        run: &RunId,
        hints: Hints,
    ) -> Result<Self, EngineError> {
        let view = handle.run(run).await?;
        let open = match waiting::open_intent(&view.record) {
            Some(intent) => handle.receipt(&intent.key).await?,
            None => None,
        };
        let over = view.record.status.is_terminal();
        let dispatch = if over { Dispatch::default() } else { handle.dispatch().await? };
        Ok(Self { view, open, dispatch, now: handle.now(), hints })
    }

    /// The newest request for approval.
    pub fn asked(&self) -> Option<&Approval> {
        self.view.approvals.last()
    }

    /// What happened to each step. Empty if the chain is broken: what cannot be verified is not shown.
    pub fn history(&self) -> History {
        let events = self.view.events.as_deref().unwrap_or_default();
        let record = &self.view.record;
        History::of(events, (record.at, &record.live))
    }
}
