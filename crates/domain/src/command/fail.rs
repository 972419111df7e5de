//! Fail: no further attempt at the step can succeed.

use crate::draft::Draft;
use crate::failure::{self, Failure};
use crate::id::Fence;
use crate::receipt::Receipt;
use crate::record::Live;
use crate::refusal::Refusal;

use super::ending::{self, Advanced};
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
    type Output = Advanced;

    fn decide(mut self, draft: &mut Draft<'_>) -> Result<Advanced, Refusal> {
        match self.fence {
            Some(fence) => {
                let lease = draft.lease(fence)?;
                ending::charge(draft, lease.attempt, self.failure.charge.take().map(|charge| *charge));
                retry::close_failed(draft, self.receipt, &self.failure);
                ending::fail_step(draft, self.failure)
            }
            None => unclaimed(draft, self.failure),
        }
    }
}

fn unclaimed(draft: &mut Draft<'_>, failure: Failure) -> Result<Advanced, Refusal> {
    draft.ensure_active()?;
    match &draft.record.live {
        // An earlier attempt may have acted, and its action can no longer be determined.
        live if live.open().is_some() && !matches!(live, Live::Unresolved { .. }) => {
            ending::pause_unresolved(draft, failure)
        }
        Live::Ready { .. } | Live::Retrying { .. } => ending::fail_step(draft, failure),
        // The interrupted attempt may have acted, and its action can no longer be determined.
        Live::Running(lease) if lease.until <= draft.now() && lease.intent.is_some() => {
            ending::pause_unresolved(draft, failure)
        }
        Live::Running(lease) if lease.until <= draft.now() => ending::fail_step(draft, failure),
        Live::Running(lease) => Err(Refusal::LeaseHeld { owner: lease.owner.clone(), until: lease.until }),
        Live::Unresolved { .. }
        | Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Ended { .. } => Err(Refusal::WrongState { expected: "a step that can be claimed" }),
    }
}

/// The last attempt at the step failed.
pub(super) fn exhausted(draft: &mut Draft<'_>, last: &Failure) -> Result<Advanced, Refusal> {
    ending::fail_step(draft, Failure::after(last, failure::ATTEMPTS_EXHAUSTED))
}
