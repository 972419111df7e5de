//! Wake: the sweep found a run whose due time has passed, and sends a message to advance it.

use crate::draft::Draft;
use crate::record::StepState;
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
                Ok(wake_reason(&draft.record.step_state, draft.now()))
            }
            // The run was advanced or woken since the index was read.
            Some(due) => Err(Refusal::NotBefore { at: due }),
            None => Err(Refusal::Paused { run: draft.record.key.clone() }),
        }
    }
}

fn wake_reason(step_state: &StepState, now: Timestamp) -> WakeReason {
    match step_state {
        StepState::Ready { .. } => WakeReason::Orphaned,
        // The due time can be older than the lease, so a valid lease is not orphaned.
        StepState::Running(lease) if lease.until <= now => WakeReason::Orphaned,
        StepState::Running(_)
        | StepState::Retrying { .. }
        | StepState::Unresolved { .. }
        | StepState::WaitingEvent { .. }
        | StepState::WaitingApproval { .. }
        | StepState::Ended { .. } => WakeReason::Due,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Fence;
    use crate::plan::OnTimeout;
    use crate::record::Lease;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn leased_until(until: i64) -> StepState {
        StepState::Running(Lease {
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
        for step_state in [StepState::FRESH, leased_until(NOW.0)] {
            assert_eq!(wake_reason(&step_state, NOW), WakeReason::Orphaned, "{step_state:?}");
        }
    }

    #[test]
    fn leased_or_waiting_run_is_not_orphaned() {
        let approval = StepState::WaitingApproval {
            approval: "a-1".parse().unwrap(),
            attempt: 0,
            open: None,
            next_reminder_at: NOW,
            deadline: NOW,
        };
        let event = StepState::WaitingEvent {
            event: "paid".parse().unwrap(),
            deadline: NOW,
            on_timeout: OnTimeout::Fail,
        };
        for step_state in [leased_until(NOW.0 + 1), approval, event] {
            assert_eq!(wake_reason(&step_state, NOW), WakeReason::Due, "{step_state:?}");
        }
    }
}
