//! Renew: a worker extends its lease.

use crate::draft::Draft;
use crate::id::Fence;
use crate::record::{ORPHANED_AFTER, StepState};
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};

use super::Command;

/// Renewals move the due time at most this often, because each move is another index write. The lease itself is in the
/// record anyway.
const DUE_UPDATE_EVERY: Millis = Millis::secs(30);

/// Extends the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// The fence of the lease.
    pub fence: Fence,
    /// The new length of the lease, from now.
    pub lease: Millis,
}

/// The renewed lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewResult {
    /// When the lease expires.
    pub until: Timestamp,
    /// Whether a user asked to cancel the run.
    pub cancel_requested: bool,
}

impl Command for Renew {
    type Output = RenewResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<RenewResult, Refusal> {
        let mut lease = draft.lease(self.fence)?;
        let until = draft.now() + self.lease;
        lease.until = until;
        draft.record.step_state = StepState::Running(lease);
        refresh_due(draft);
        Ok(RenewResult { until, cancel_requested: draft.record.cancel.is_some() })
    }
}

fn refresh_due(draft: &mut Draft<'_>) {
    let now = draft.now();
    let stale = now + Millis(ORPHANED_AFTER.0 - DUE_UPDATE_EVERY.0);
    if draft.record.due_at.is_none_or(|due| due < stale) {
        draft.record.due_at = Some(now + ORPHANED_AFTER);
    }
}
