//! Cancel: a user stops the run.
//!
//! A run whose step is not leased stops at once. A leased step may be performing its effect, so there the request is
//! stored. It takes effect before the intent is written; after that, the action finishes and is rolled back. A rollback
//! in progress is completed. A canceled run therefore hides no effect.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::machine::RunStatus;
use crate::record::{OperatorRequest, StepState};
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, AfterStep};

/// Stops the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Why.
    pub reason: String,
}

/// The result of a request to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelResult {
    /// The run stopped.
    Stopped(AfterStep),
    /// The request is stored; the run stops after its current step.
    Requested,
    /// The run was stopped, or asked to stop, before; nothing changed.
    AlreadyRequested,
    /// The run is rolling back. Nothing changed: the rollback is completed, and then the run ends. To end it earlier and
    /// keep the remaining effects, pause the run and cancel it.
    RollingBack,
}

impl Command for Cancel {
    type Output = CancelResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<CancelResult, Refusal> {
        // A paused run does not act on an earlier request by itself.
        let will_stop = draft.record.cancel.is_some() && draft.record.status != RunStatus::Paused;
        if draft.record.status == RunStatus::Canceled || will_stop {
            return Ok(CancelResult::AlreadyRequested);
        }
        draft.ensure_active()?;
        match (&draft.record.step_state, draft.record.status) {
            // A rollback is completed, even while its next action waits for approval.
            (_, status) if draft.record.is_rolling_back() && status != RunStatus::Paused => {
                Ok(CancelResult::RollingBack)
            }
            // A user who cancels a paused run has seen its open effect and accepts the unknown outcome.
            (_, RunStatus::Paused) => ending::cancel_run(draft, self.reason).map(CancelResult::Stopped),
            // The outcome of an interrupted effect that can be retried is resolved before the run stops.
            (StepState::Running(_) | StepState::Retrying { open: Some(_), .. }, _) => Ok(self.request(draft)),
            _ => ending::cancel_run(draft, self.reason).map(CancelResult::Stopped),
        }
    }
}

impl Cancel {
    fn request(self, draft: &mut Draft<'_>) -> CancelResult {
        draft.record.cancel = Some(OperatorRequest {
            by: draft.context.by.id.clone(),
            reason: self.reason.clone(),
            at: draft.context.now,
        });
        draft.record_event(EventBody::CancelRequested { reason: self.reason });
        CancelResult::Requested
    }
}

/// Stops the run as part of a backout, where no user has reviewed this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackOut {
    /// Why.
    pub reason: String,
}

impl Command for BackOut {
    /// `None` if a user must review the run first; it does not change.
    type Output = Option<CancelResult>;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Option<CancelResult>, Refusal> {
        draft.ensure_active()?;
        let rolls_back = draft.record.is_rolling_back() && draft.record.status != RunStatus::Paused;
        let resolves = rolls_back
            || matches!(draft.record.step_state, StepState::Running(_) | StepState::Retrying { .. });
        // Only a user who has seen an effect with an unknown outcome may give up on it.
        if draft.record.step_state.leaves_unknown() && !resolves {
            return Ok(None);
        }
        Cancel { reason: self.reason }.decide(draft).map(Some)
    }
}
