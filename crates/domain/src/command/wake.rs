//! Wake: the sweep found a run whose due time has passed, and sends somebody to look.

use crate::draft::Draft;
use crate::record::Live;
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::Command;

/// Somebody should look at the run. Its due time moves, so that a fleet that is down does not find a
/// thousand messages for one run when it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake;

/// Why nobody had looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The run was left: whoever held it went silent, or nobody began it.
    Orphaned,
    /// It was nobody's turn before: a deadline, a reminder or another attempt has come due.
    Due,
}

impl Command for Wake {
    type Answer = Woken;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Woken, Refusal> {
        draft.open()?;
        match draft.record.due_at {
            Some(due) if due <= draft.now() => {
                draft.wake();
                Ok(why(&draft.record.live, draft.now()))
            }
            // Somebody has looked, or has woken it, since the index was read.
            Some(due) => Err(Refusal::NotBefore { at: due }),
            None => Err(Refusal::Paused { run: draft.record.key.clone() }),
        }
    }
}

/// What it means that a run in this state was not looked at until its due time had passed.
fn why(live: &Live, now: Timestamp) -> Woken {
    match live {
        Live::Ready { .. } => Woken::Orphaned,
        // A due time can be older than the hold: whoever still holds the run has not left it.
        Live::Running(lease) if lease.until <= now => Woken::Orphaned,
        Live::Running(_)
        | Live::Retrying { .. }
        | Live::Unresolved { .. }
        | Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Over { .. } => Woken::Due,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Fence;
    use crate::plan::OnTimeout;
    use crate::record::Lease;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn held_until(until: i64) -> Live {
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
    fn a_run_that_nobody_began_or_whose_holder_went_silent_was_left() {
        for live in [Live::FRESH, held_until(NOW.0)] {
            assert_eq!(why(&live, NOW), Woken::Orphaned, "{live:?}");
        }
    }

    #[test]
    fn a_run_that_is_held_or_waits_was_not_left() {
        let asks = Live::WaitingApproval {
            approval: "a-1".parse().unwrap(),
            attempt: 0,
            open: None,
            nudge_at: NOW,
            deadline: NOW,
        };
        let waits =
            Live::WaitingEvent { event: "paid".parse().unwrap(), deadline: NOW, on_timeout: OnTimeout::Fail };
        for live in [held_until(NOW.0 + 1), asks, waits] {
            assert_eq!(why(&live, NOW), Woken::Due, "{live:?}");
        }
    }
}
