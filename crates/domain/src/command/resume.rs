//! Resume: an operator continues a paused run. If the outcome of an effect is unknown, resuming authorizes another
//! attempt at it.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::machine::{RunStatus, RunTransition, StepTransition};
use crate::record::StepState;
use crate::refusal::Refusal;

use super::Command;

/// Continues a paused run with its current step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Why.
    pub reason: String,
}

impl Command for Resume {
    type Output = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        draft.ensure_active()?;
        let status = draft.record.status;
        if status != RunStatus::Paused {
            return Err(Refusal::NotPaused { run: draft.record.key.clone(), status });
        }
        reopen(draft)?;
        draft.record.pause = None;
        draft.record.resumes = draft.record.resumes.saturating_add(1);
        draft.record_event(EventBody::RunResumed { reason: self.reason });
        Ok(())
    }
}

/// Makes the step claimable. A step that was waiting for its next attempt keeps its state, because the pause says nothing
/// about what an earlier attempt may have done.
fn reopen(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let retrying = match draft.record.step_state.clone() {
        StepState::Retrying { attempt, failure, open, approved, .. } => {
            let not_before = draft.now();
            draft.record.step_state = StepState::Retrying { attempt, not_before, failure, open, approved };
            true
        }
        step_state => {
            let (authorized, approved) = (step_state.open().cloned(), step_state.approved().cloned());
            // The operator has seen the evidence and authorizes a retry, so the attempts start from zero.
            let attempt =
                if matches!(step_state, StepState::Unresolved { .. }) { 0 } else { step_state.attempt() };
            draft.move_step(StepTransition::Reopen, StepState::Ready { attempt, authorized, approved })?;
            false
        }
    };
    draft.move_run(match (draft.record.is_rolling_back(), retrying) {
        (true, _) => RunTransition::RollBack,
        (false, true) => RunTransition::Retry,
        (false, false) => RunTransition::Resume,
    })
}
