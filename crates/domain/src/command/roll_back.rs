//! Roll back: an operator undoes effects of the run, newest first. The run ends as canceled.

use crate::draft::Draft;
use crate::id::{StepId, StepSeq};
use crate::record::{Rollback, RollbackEnds, StepState};
use crate::refusal::Refusal;

use super::Command;
use super::ending;

/// Undoes the effects of the run whose steps have a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBack {
    /// Why.
    pub reason: String,
    /// The first step in the plan whose effect is undone; the effects of earlier steps stay. `None` for all effects.
    pub down_to: Option<StepId>,
}

impl Command for RollBack {
    /// The first step that is undone.
    type Output = StepSeq;

    fn decide(self, draft: &mut Draft<'_>) -> Result<StepSeq, Refusal> {
        draft.ensure_active()?;
        match &draft.record.step_state {
            StepState::Running(lease) => {
                return Err(Refusal::LeaseHeld { owner: lease.owner.clone(), until: lease.until });
            }
            _ if draft.record.is_rolling_back() => {
                return Err(Refusal::WrongState { expected: "a run that is not rolling back" });
            }
            _ => {}
        }
        let floor = match &self.down_to {
            Some(step) => position(draft, step)?,
            None => StepSeq(0),
        };
        let from = ending::next_undo(draft, draft.record.at, floor).ok_or(Refusal::NothingToRollBack)?;
        let rollback = Rollback { floor, reason: self.reason, ends: RollbackEnds::Canceled };
        ending::start_rollback(draft, from, rollback)?;
        Ok(from)
    }
}

fn position(draft: &Draft<'_>, step: &StepId) -> Result<StepSeq, Refusal> {
    let mut steps = (0_u16..).map(StepSeq).zip(&draft.plan.steps);
    let found = steps.find(|(_, planned)| planned.id == *step).map(|(seq, _)| seq);
    found.ok_or(Refusal::WrongState {
        expected: "the ID of a step of the workflow; `run show` lists the steps",
    })
}
