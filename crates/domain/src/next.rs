//! The next command for a run.

use crate::machine::RunStatus;
use crate::plan::{Plan, Work};
use crate::record::{RunRecord, StepState};
use crate::time::Timestamp;

/// The next command for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// None: the run has ended, is paused, or waits for a message.
    Nothing,
    /// None before this time: the step is leased, or the next attempt is not due.
    NotBefore(Timestamp),
    /// Claim the current step, or its rollback.
    Claim,
    /// Take over the current step, whose lease expired.
    TakeOver,
    /// Open the wait of the current step.
    OpenWait,
    /// Open the gate of the current step.
    OpenGate,
    /// Time out the current step.
    TimeOut,
    /// Remind the approvers, or escalate.
    RemindApprovers,
}

/// The next command for the run at `now`.
pub fn next(record: &RunRecord, plan: &Plan, now: Timestamp) -> Next {
    if record.status.is_terminal() || record.status == RunStatus::Paused {
        return Next::Nothing;
    }
    match &record.step_state {
        StepState::Ready { .. } => next_for_ready(record, plan),
        StepState::Running(lease) if lease.until <= now => Next::TakeOver,
        StepState::Running(lease) => Next::NotBefore(lease.until),
        StepState::Retrying { not_before, .. } if *not_before <= now => Next::Claim,
        StepState::Retrying { not_before, .. } => Next::NotBefore(*not_before),
        StepState::WaitingEvent { deadline, .. } | StepState::WaitingApproval { deadline, .. }
            if *deadline <= now =>
        {
            Next::TimeOut
        }
        StepState::WaitingApproval { next_reminder_at, .. } if *next_reminder_at <= now => {
            Next::RemindApprovers
        }
        StepState::WaitingEvent { .. }
        | StepState::WaitingApproval { .. }
        | StepState::Unresolved { .. }
        | StepState::Ended { .. } => Next::Nothing,
    }
}

fn next_for_ready(record: &RunRecord, plan: &Plan) -> Next {
    if record.is_rolling_back() {
        return Next::Claim;
    }
    match plan.step(record.at).map(|step| &step.work) {
        Some(Work::Call(_)) => Next::Claim,
        Some(Work::Wait { .. }) => Next::OpenWait,
        Some(Work::Gate { .. }) => Next::OpenGate,
        // Every command refuses a record that points past its plan.
        None => Next::Nothing,
    }
}
