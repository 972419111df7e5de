//! Cancel: somebody wants the run stopped.
//!
//! Where nothing is under way the run stops at once. A step that is held may be acting at this moment, so
//! there the wish is kept: it is honoured before the intent, and after it the action finishes and is taken
//! back. `canceled` therefore never hides an effect.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::machine::RunStatus;
use crate::record::{Live, Request};
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, Advanced};

/// A wish to stop the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Why.
    pub reason: String,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Canceling {
    /// The run is stopped.
    Now(Advanced),
    /// The run stops when its step lets it.
    Requested,
    /// It had been stopped, or asked to, before; nothing changed.
    AlreadyRequested,
}

impl Command for Cancel {
    type Answer = Canceling;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Canceling, Refusal> {
        // A paused run does not get round to an earlier request by itself.
        let will_stop = draft.record.cancel.is_some() && draft.record.status != RunStatus::Paused;
        if draft.record.status == RunStatus::Canceled || will_stop {
            return Ok(Canceling::AlreadyRequested);
        }
        draft.open()?;
        match (&draft.record.live, draft.record.status) {
            // What is being taken back is not left half done, even while people are asked about it.
            (_, status) if draft.record.is_undoing() && status != RunStatus::Paused => {
                Ok(Canceling::AlreadyRequested)
            }
            // Whoever cancels a paused run has seen what is open, and gives up on it.
            (_, RunStatus::Paused) => ending::cancel_run(draft, self.reason).map(Canceling::Now),
            // An interrupted effect that may be acted on again must be settled before the run can stop.
            (Live::Running(_) | Live::Retrying { open: Some(_), .. }, _) => Ok(self.request(draft)),
            _ => ending::cancel_run(draft, self.reason).map(Canceling::Now),
        }
    }
}

impl Cancel {
    fn request(self, draft: &mut Draft<'_>) -> Canceling {
        draft.record.cancel =
            Some(Request { by: draft.stamp.by.id.clone(), reason: self.reason.clone(), at: draft.stamp.now });
        draft.record_event(EventBody::CancelRequested { reason: self.reason });
        Canceling::Requested
    }
}

/// A wish to stop the run, of somebody who has not looked at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackOut {
    /// Why.
    pub reason: String,
}

impl Command for BackOut {
    /// `None` if a person has to look at the run first: it stays as it is.
    type Answer = Option<Canceling>;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Option<Canceling>, Refusal> {
        draft.open()?;
        let taken_back = draft.record.is_undoing() && draft.record.status != RunStatus::Paused;
        let settled = taken_back || matches!(draft.record.live, Live::Running(_) | Live::Retrying { .. });
        // Whoever gives up on an effect that nobody can account for must have seen it.
        if draft.record.live.leaves_unknown() && !settled {
            return Ok(None);
        }
        Cancel { reason: self.reason }.decide(draft).map(Some)
    }
}
