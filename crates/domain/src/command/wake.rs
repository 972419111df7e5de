//! Wake: the sweep found a run whose due time has passed, and sends a message to advance it.

use crate::draft::Draft;
use crate::record::Live;
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::Command;

/// Sends a message to advance the run, and moves its due time. Without the move, every sweep during an outage of the
/// fleet would add another message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake;

/// Why the due time of a run passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReason {
    /// The run was orphaned: its lease expired, or no worker started it.
    Orphaned,
    /// A deadline, a reminder or the next attempt is due.
    Due,
}

impl Command for Wake {
    type Output = WakeReason;

    fn decide(self, draft: &mut Draft<'_>) -> Result<WakeReason, Refusal> {
        draft.ensure_active()?;
        match draft.record.due_at {
            Some(due) if due <= draft.now() => {
                draft.wake();
                Ok(reason(&draft.record.live, draft.now()))
            }
            // The run was advanced or woken since the index was read.
            Some(due) => Err(Refusal::NotBefore { at: due }),
            None => Err(Refusal::Paused { run: draft.record.key.clone() }),
        }
    }
}

fn reason(live: &Live, now: Timestamp) -> WakeReason {
    match live {
        Live::Ready { .. } => WakeReason::Orphaned,
        // The due time can be older than the lease, so a valid lease is not orphaned.
        Live::Running(lease) if lease.until <= now => WakeReason::Orphaned,
        Live::Running(_)
        | Live::Retrying { .. }
        | Live::Unresolved { .. }
        | Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Ended { .. } => WakeReason::Due,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Fence;
    use crate::plan::OnTimeout;
    use crate::record::Lease;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn leased_until(until: i64) -> Live {
        Live::Running(Lease {
            owner: "w".parse().unwrap(),
            fence: Fence(1),
            attempt: 0,
            since: Timestamp(0),
            until: Timestamp(until),
            op: "op-1".parse().unwrap(),
            intent: None,
            approved: None,
        })
    }

    #[test]
    fn unclaimed_step_or_expired_lease_is_orphaned() {
        for live in [Live::FRESH, leased_until(NOW.0)] {
            assert_eq!(reason(&live, NOW), WakeReason::Orphaned, "{live:?}");
        }
    }

    #[test]
    fn leased_or_waiting_run_is_not_orphaned() {
        let approval = Live::WaitingApproval {
            approval: "a-1".parse().unwrap(),
            attempt: 0,
            open: None,
            nudge_at: NOW,
            deadline: NOW,
        };
        let event =
            Live::WaitingEvent { event: "paid".parse().unwrap(), deadline: NOW, on_timeout: OnTimeout::Fail };
        for live in [leased_until(NOW.0 + 1), approval, event] {
            assert_eq!(reason(&live, NOW), WakeReason::Due, "{live:?}");
        }
    }
}
