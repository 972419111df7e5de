//! Resume: an operator has looked, and says to go on. If the outcome of an effect is unknown, this is the
//! person's word that it may be done again.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::machine::{RunMove, RunStatus, StepMove};
use crate::record::Live;
use crate::refusal::Refusal;

use super::Command;

/// A paused run goes on with its current step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Why.
    pub reason: String,
}

impl Command for Resume {
    type Answer = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        draft.open()?;
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

/// The step can be taken again. One that was waiting for its next attempt goes on where it stood: that it was
/// paused says nothing about what it may have done.
fn reopen(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    let retrying = match draft.record.live.clone() {
        Live::Retrying { attempt, failure, open, approved, .. } => {
            let not_before = draft.now();
            draft.record.live = Live::Retrying { attempt, not_before, failure, open, approved };
            true
        }
        live => {
            let (authorised, approved) = (live.open().cloned(), live.approved().cloned());
            // A person has seen the evidence and says to try again: the step gets its attempts anew.
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
