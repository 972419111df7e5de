//! Fail: the step cannot succeed, however often it is tried.

use crate::draft::Draft;
use crate::failure::{self, Failure};
use crate::id::Fence;
use crate::receipt::Receipt;
use crate::record::Live;
use crate::refusal::Refusal;

use super::ending::{self, Advanced};
use super::{Command, retry};

/// The current step fails for good, and nothing happened outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Fail {
    /// The fence it is held under; `None` for a step that could not even be claimed, because what it
    /// should do cannot be said.
    pub fence: Option<Fence>,
    /// Why.
    pub failure: Failure,
    /// The intent that came with the grant.
    pub receipt: Option<Receipt>,
}

impl Command for Fail {
    type Answer = Advanced;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Advanced, Refusal> {
        match self.fence {
            Some(fence) => {
                draft.held(fence)?;
                retry::close_failed(draft, self.receipt, &self.failure);
                ending::fail_step(draft, self.failure)
            }
            None => unclaimed(draft, self.failure),
        }
    }
}

fn unclaimed(draft: &mut Draft<'_>, failure: Failure) -> Result<Advanced, Refusal> {
    draft.open()?;
    match &draft.record.live {
        // An earlier attempt may have acted, and what it did can no longer be worked out.
        live if live.open().is_some() && !matches!(live, Live::Unresolved { .. }) => {
            ending::pause_unresolved(draft, failure)
        }
        Live::Ready { .. } | Live::Retrying { .. } => ending::fail_step(draft, failure),
        // An interrupted attempt may have acted, and what it did can no longer be worked out.
        Live::Running(lease) if lease.until <= draft.now() && lease.intent.is_some() => {
            ending::pause_unresolved(draft, failure)
        }
        Live::Running(lease) if lease.until <= draft.now() => ending::fail_step(draft, failure),
        Live::Running(lease) => Err(Refusal::Held { owner: lease.owner.clone(), until: lease.until }),
        Live::Unresolved { .. }
        | Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Over { .. } => Err(Refusal::WrongWork { expected: "a step that can be claimed" }),
    }
}

/// The step's last attempt failed.
pub(super) fn exhausted(draft: &mut Draft<'_>, last: &Failure) -> Result<Advanced, Refusal> {
    ending::fail_step(draft, Failure::after(last, failure::ATTEMPTS_EXHAUSTED))
}
