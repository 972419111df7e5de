//! What can be done for a run now.

use crate::machine::RunStatus;
use crate::plan::{Plan, Work};
use crate::record::{Live, RunRecord};
use crate::time::Timestamp;

/// What can be done for a run now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it is over, paused, or waits for something that will wake it.
    Nothing,
    /// Nothing before this time: somebody holds the step, or a retry is not due.
    NotBefore(Timestamp),
    /// The current step, or its undoing, can be claimed.
    Claim,
    /// The holder of the current step went silent.
    TakeOver,
    /// The current step is a wait that is not open yet.
    OpenWait,
    /// The current step is a question that nobody has been asked yet.
    OpenGate,
    /// A deadline has passed.
    TimeOut,
    /// People who have not answered are to be reminded, or others told.
    Nudge,
}

/// What can be done for the run at `now`.
pub fn next(record: &RunRecord, plan: &Plan, now: Timestamp) -> Next {
    if record.status.is_terminal() || record.status == RunStatus::Paused {
        return Next::Nothing;
    }
    match &record.live {
        Live::Ready { .. } => ready(record, plan),
        Live::Running(lease) if lease.until <= now => Next::TakeOver,
        Live::Running(lease) => Next::NotBefore(lease.until),
        Live::Retrying { not_before, .. } if *not_before <= now => Next::Claim,
        Live::Retrying { not_before, .. } => Next::NotBefore(*not_before),
        Live::WaitingEvent { deadline, .. } | Live::WaitingApproval { deadline, .. } if *deadline <= now => {
            Next::TimeOut
        }
        Live::WaitingApproval { nudge_at, .. } if *nudge_at <= now => Next::Nudge,
        Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Unresolved { .. }
        | Live::Over { .. } => Next::Nothing,
    }
}

fn ready(record: &RunRecord, plan: &Plan) -> Next {
    if record.is_undoing() {
        return Next::Claim;
    }
    match plan.step(record.at).map(|step| &step.work) {
        Some(Work::Call(_)) => Next::Claim,
        Some(Work::Wait { .. }) => Next::OpenWait,
        Some(Work::Gate { .. }) => Next::OpenGate,
        // A record beyond its plan is refused by every command; there is nothing to do for it.
        None => Next::Nothing,
    }
}
