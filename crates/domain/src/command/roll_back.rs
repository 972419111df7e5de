//! Roll back: an operator undoes the run's effects, newest first. The run ends as canceled.

use crate::draft::Draft;
use crate::id::StepSeq;
use crate::record::{Live, Rollback, RollbackEnds};
use crate::refusal::Refusal;

use super::Command;
use super::ending;

/// Undoes every effect of the run whose step has a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBack {
    /// Why.
    pub reason: String,
}

impl Command for RollBack {
    /// The first step that is undone.
    type Output = StepSeq;

    fn decide(self, draft: &mut Draft<'_>) -> Result<StepSeq, Refusal> {
        draft.ensure_active()?;
        match &draft.record.live {
            Live::Running(lease) => {
                return Err(Refusal::LeaseHeld { owner: lease.owner.clone(), until: lease.until });
            }
            _ if draft.record.is_undoing() => {
                return Err(Refusal::WrongState { expected: "a run that is not rolling back" });
            }
            _ => {}
        }
        let from =
            ending::undo_before(draft, draft.record.at, StepSeq(0)).ok_or(Refusal::NothingToRollBack)?;
        let rollback = Rollback { floor: StepSeq(0), reason: self.reason, ends: RollbackEnds::Canceled };
        ending::start_rollback(draft, from, rollback)?;
        Ok(from)
    }
}
