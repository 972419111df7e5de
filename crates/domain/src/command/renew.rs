//! Renew: a holder shows that it is alive.

use crate::draft::Draft;
use crate::id::Fence;
use crate::record::{Live, ORPHANED_AFTER};
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};

use super::Command;

/// A run's own heartbeat is written at most this often; the lease's is in the same record anyway.
const HEARTBEAT_EVERY: Millis = Millis::secs(30);

/// A wish to hold on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// The fence it is held under.
    pub fence: Fence,
    /// For how much longer.
    pub lease: Millis,
}

/// What the holder should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewed {
    /// Until when it holds the step now.
    pub until: Timestamp,
    /// Whether somebody has asked to stop the run.
    pub cancel_requested: bool,
}

impl Command for Renew {
    type Answer = Renewed;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Renewed, Refusal> {
        let mut lease = draft.held(self.fence)?;
        let until = draft.now() + self.lease;
        lease.until = until;
        draft.record.live = Live::Running(lease);
        refresh_due(draft);
        Ok(Renewed { until, cancel_requested: draft.record.cancel.is_some() })
    }
}

fn refresh_due(draft: &mut Draft<'_>) {
    let now = draft.now();
    let worn = now + Millis(ORPHANED_AFTER.0 - HEARTBEAT_EVERY.0);
    if draft.record.due_at.is_none_or(|due| due < worn) {
        draft.record.due_at = Some(now + ORPHANED_AFTER);
    }
}
