//! Resume: an operator continues a paused run. If the outcome of an effect is unknown, resuming authorizes another
//! attempt at it.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::machine::{RunMove, RunStatus, StepMove};
use crate::record::Live;
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
    let retrying = match draft.record.live.clone() {
        Live::Retrying { attempt, failure, open, approved, .. } => {
            let not_before = draft.now();
            draft.record.live = Live::Retrying { attempt, not_before, failure, open, approved };
            true
        }
        live => {
            let (authorised, approved) = (live.open().cloned(), live.approved().cloned());
            // The operator has seen the evidence and authorizes a retry, so the attempts start from zero.
            let attempt = if matches!(live, Live::Unresolved { .. }) { 0 } else { live.attempt() };
            draft.move_step(StepMove::Reopen, Live::Ready { attempt, authorised, approved })?;
            false
        }
    };
    draft.move_run(match (draft.record.is_undoing(), retrying) {
        (true, _) => RunMove::RollBack,
        (false, true) => RunMove::Retry,
        (false, false) => RunMove::Resume,
    })
}
