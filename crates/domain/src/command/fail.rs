//! Fail: no further attempt at the step can succeed.

use crate::draft::Draft;
use crate::failure::{self, Failure};
use crate::id::Fence;
use crate::receipt::Receipt;
use crate::record::StepState;
use crate::refusal::Refusal;

use super::ending::{self, AfterStep};
use super::{Command, retry};

/// The current step fails permanently, and its effect did not happen.
#[derive(Debug, Clone, PartialEq)]
pub struct Fail {
    /// The fence of the lease; `None` for a step that was not claimed because its action cannot be determined.
    pub fence: Option<Fence>,
    /// Why.
    pub failure: Failure,
    /// The intent that came with the grant.
    pub receipt: Option<Receipt>,
}

impl Command for Fail {
    type Output = AfterStep;

    fn decide(mut self, draft: &mut Draft<'_>) -> Result<AfterStep, Refusal> {
        match self.fence {
            Some(fence) => {
                let lease = draft.lease(fence)?;
                ending::charge(draft, lease.attempt, self.failure.charge.take().map(|charge| *charge));
                retry::close_failed(draft, self.receipt, &self.failure);
                ending::fail_step(draft, self.failure)
            }
            None => fail_unclaimed(draft, self.failure),
        }
    }
}

fn fail_unclaimed(draft: &mut Draft<'_>, failure: Failure) -> Result<AfterStep, Refusal> {
    draft.ensure_active()?;
    match &draft.record.step_state {
        // An earlier attempt may have acted, and its action can no longer be determined.
        step_state if step_state.open().is_some() && !matches!(step_state, StepState::Unresolved { .. }) => {
            ending::pause_unresolved(draft, failure)
        }
        StepState::Ready { .. } | StepState::Retrying { .. } => ending::fail_step(draft, failure),
        // The interrupted attempt may have acted, and its action can no longer be determined.
        StepState::Running(lease) if lease.until <= draft.now() && lease.intent.is_some() => {
            ending::pause_unresolved(draft, failure)
        }
        StepState::Running(lease) if lease.until <= draft.now() => ending::fail_step(draft, failure),
        StepState::Running(lease) => {
            Err(Refusal::LeaseHeld { owner: lease.owner.clone(), until: lease.until })
        }
        StepState::Unresolved { .. }
        | StepState::WaitingEvent { .. }
        | StepState::WaitingApproval { .. }
        | StepState::Ended { .. } => Err(Refusal::WrongState { expected: "a step that can be claimed" }),
    }
}

/// The last attempt at the step failed.
pub(super) fn fail_exhausted(draft: &mut Draft<'_>, last: &Failure) -> Result<AfterStep, Refusal> {
    ending::fail_step(draft, Failure::after(last, failure::ATTEMPTS_EXHAUSTED))
}
