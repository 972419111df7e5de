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
        let authorised = draft.record.live.open().cloned();
        let approved = draft.record.live.approved().cloned();
        // A person said so: the step gets its attempts anew. What people have approved they have approved.
        draft.move_step(StepMove::Reopen, Live::Ready { attempt: 0, authorised, approved })?;
        draft.move_run(RunMove::Resume)?;
        if draft.record.is_undoing() {
            draft.move_run(RunMove::RollBack)?;
        }
        draft.record.pause = None;
        draft.record.resumes = draft.record.resumes.saturating_add(1);
        draft.record_event(EventBody::RunResumed { reason: self.reason });
        Ok(())
    }
}
