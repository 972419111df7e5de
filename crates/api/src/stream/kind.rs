//! Which types of event the stream has, and which of the chain's entries give which.
//!
//! One entry of the chain may say several things at once: the step that ends last also ends the run. It gives an
//! envelope for each, so that whoever waits for `session.completed` need not know which step comes last.

use domain::{Event, EventBody, RunStatus, StepStatus};

/// A type of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A run began.
    SessionCreated,
    /// A worker took over from one that went silent.
    SessionAssigned,
    /// People are asked.
    ApprovalRequested,
    /// What people were asked is settled: they answered, nobody did in time, or the question was withdrawn.
    ApprovalResolved,
    /// An effect is about to be attempted.
    StepStarted,
    /// A step gave something.
    StepOutput,
    /// A step is done.
    StepCompleted,
    /// An attempt or a step failed.
    StepFailed,
    /// Effects are being taken back.
    RollbackStarted,
    /// Everything that could be taken back is.
    RollbackCompleted,
    /// Every step succeeded, and the run is over.
    SessionCompleted,
    /// The run failed, and is over.
    SessionFailed,
    /// One of two people answered.
    ApprovalVoted,
    /// People were asked again.
    ApprovalReminded,
    /// Nobody answered in time, and others were told.
    ApprovalEscalated,
    /// Policy said no.
    ActionDenied,
    /// Nobody knows whether an effect happened.
    OutcomeUnknown,
    /// A step's effect was taken back.
    StepRolledBack,
    /// A wait was opened.
    WaitOpened,
    /// A deadline passed.
    WaitTimedOut,
    /// An event from outside came before its wait was open.
    SignalKept,
    /// An event from outside ended a wait.
    SignalDelivered,
    /// Somebody asked to stop the run.
    CancelRequested,
    /// The run was stopped, and is over.
    RunCanceled,
    /// Somebody asked to pause the run.
    PauseRequested,
    /// The run waits for an operator.
    RunPaused,
    /// An operator said to go on.
    RunResumed,
}

impl Kind {
    /// Every type, those of the twelve first.
    pub const ALL: [Self; 27] = [
        Self::SessionCreated,
        Self::SessionAssigned,
        Self::ApprovalRequested,
        Self::ApprovalResolved,
        Self::StepStarted,
        Self::StepOutput,
        Self::StepCompleted,
        Self::StepFailed,
        Self::RollbackStarted,
        Self::RollbackCompleted,
        Self::SessionCompleted,
        Self::SessionFailed,
        Self::ApprovalVoted,
        Self::ApprovalReminded,
        Self::ApprovalEscalated,
        Self::ActionDenied,
        Self::OutcomeUnknown,
        Self::StepRolledBack,
        Self::WaitOpened,
        Self::WaitTimedOut,
        Self::SignalKept,
        Self::SignalDelivered,
        Self::CancelRequested,
        Self::RunCanceled,
        Self::PauseRequested,
        Self::RunPaused,
        Self::RunResumed,
    ];

    /// As an envelope names it. Those that are not among the twelve of C16 begin with our name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionCreated => "session.created",
            Self::SessionAssigned => "session.assigned",
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalResolved => "approval.resolved",
            Self::StepStarted => "execution.step.started",
            Self::StepOutput => "execution.step.output",
            Self::StepCompleted => "execution.step.completed",
            Self::StepFailed => "execution.step.failed",
            Self::RollbackStarted => "execution.rollback.started",
            Self::RollbackCompleted => "execution.rollback.completed",
            Self::SessionCompleted => "session.completed",
            Self::SessionFailed => "session.failed",
            Self::ApprovalVoted => "countersign.approval.voted",
            Self::ApprovalReminded => "countersign.approval.reminded",
            Self::ApprovalEscalated => "countersign.approval.escalated",
            Self::ActionDenied => "countersign.action.denied",
            Self::OutcomeUnknown => "countersign.step.outcome_unknown",
            Self::StepRolledBack => "countersign.step.rolled_back",
            Self::WaitOpened => "countersign.wait.opened",
            Self::WaitTimedOut => "countersign.wait.timed_out",
            Self::SignalKept => "countersign.signal.kept",
            Self::SignalDelivered => "countersign.signal.delivered",
            Self::CancelRequested => "countersign.run.cancel_requested",
            Self::RunCanceled => "countersign.run.canceled",
            Self::PauseRequested => "countersign.run.pause_requested",
            Self::RunPaused => "countersign.run.paused",
            Self::RunResumed => "countersign.run.resumed",
        }
    }

    /// Whether it is about the whole run rather than about the step where the run stood.
    pub(super) fn is_about_the_run(self) -> bool {
        matches!(
            self,
            Self::SessionCreated
                | Self::RollbackStarted
                | Self::RollbackCompleted
                | Self::SessionCompleted
                | Self::SessionFailed
                | Self::SignalKept
                | Self::CancelRequested
                | Self::RunCanceled
                | Self::PauseRequested
                | Self::RunPaused
                | Self::RunResumed
        )
    }
}

/// What an entry of the chain says: first what it is itself, then what became of the step and the run by it.
pub fn kinds(event: &Event) -> Vec<Kind> {
    let mut kinds = vec![own(event)];
    for kind in [of_the_step(event), of_the_run(event)].into_iter().flatten() {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn own(event: &Event) -> Kind {
    use domain::ApprovalStatus::Requested;
    let was_rolling_back = event.run.is_some_and(|run| run.from == Some(RunStatus::RollingBack));
    match &event.body {
        EventBody::RunAdmitted { .. } => Kind::SessionCreated,
        EventBody::StepSucceeded { .. } => Kind::StepOutput,
        EventBody::AttemptFailed { .. } | EventBody::StepFailed { .. } => Kind::StepFailed,
        EventBody::LeaseExpired { .. } => Kind::SessionAssigned,
        EventBody::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
        EventBody::WaitOpened { .. } => Kind::WaitOpened,
        EventBody::EventKept { .. } => Kind::SignalKept,
        EventBody::EventDelivered { .. } => Kind::SignalDelivered,
        EventBody::TimedOut { .. } => Kind::WaitTimedOut,
        EventBody::EffectIntended { .. } => Kind::StepStarted,
        EventBody::ActionDenied { .. } => Kind::ActionDenied,
        EventBody::ApprovalRequested { .. } => Kind::ApprovalRequested,
        EventBody::ApprovalVoted { status: Requested, .. } => Kind::ApprovalVoted,
        EventBody::ApprovalVoted { .. }
        | EventBody::ApprovalExpired { .. }
        | EventBody::ApprovalWithdrawn { .. } => Kind::ApprovalResolved,
        EventBody::ApprovalReminded { .. } => Kind::ApprovalReminded,
        EventBody::ApprovalEscalated { .. } => Kind::ApprovalEscalated,
        EventBody::CancelRequested { .. } => Kind::CancelRequested,
        // A run that rolls back is stopped only when everything is taken back.
        EventBody::RunCanceled { .. } if was_rolling_back => Kind::RollbackCompleted,
        EventBody::RunCanceled { .. } => Kind::RunCanceled,
        EventBody::RunFailed { .. } => Kind::RollbackCompleted,
        EventBody::PauseRequested { .. } => Kind::PauseRequested,
        EventBody::RunPaused { .. } => Kind::RunPaused,
        EventBody::RunResumed { .. } => Kind::RunResumed,
        EventBody::RollbackStarted { .. } => Kind::RollbackStarted,
        EventBody::StepRolledBack { .. } => Kind::StepRolledBack,
    }
}

fn of_the_step(event: &Event) -> Option<Kind> {
    use StepStatus::{
        Canceled, FailedRetryable, FailedTerminal, Pending, Ready, RolledBack, Running, Succeeded,
        WaitingApproval, WaitingEvent,
    };
    match event.step.as_ref()?.to {
        Succeeded => Some(Kind::StepCompleted),
        FailedTerminal => Some(Kind::StepFailed),
        Pending | Ready | Running | WaitingApproval | WaitingEvent | FailedRetryable | Canceled
        | RolledBack => None,
    }
}

fn of_the_run(event: &Event) -> Option<Kind> {
    use RunStatus::{
        Canceled, FailedRetryable, FailedTerminal, Paused, Queued, RollingBack, Running, Succeeded,
        WaitingApproval, WaitingEvent,
    };
    match event.run?.to {
        Succeeded => Some(Kind::SessionCompleted),
        FailedTerminal => Some(Kind::SessionFailed),
        Canceled => Some(Kind::RunCanceled),
        Queued | Running | WaitingApproval | WaitingEvent | Paused | RollingBack | FailedRetryable => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(mut event: Value, more: Value) -> Vec<&'static str> {
        let common = json!({ "n": 1, "at": 0, "by": { "cause": "system", "id": "w" }, "seq": 0 });
        for part in [common, more] {
            event.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
        }
        kinds(&serde_json::from_value(event).unwrap()).into_iter().map(Kind::as_str).collect()
    }

    fn run(from: &str, to: &str) -> Value {
        json!({ "run": { "from": from, "to": to } })
    }

    #[test]
    fn the_step_that_ends_last_also_ends_the_run() {
        let failed =
            json!({ "kind": "step_failed", "number": 0, "failure": { "code": "X", "message": "x" } });
        assert_eq!(told(failed.clone(), run("running", "running")), ["execution.step.failed"]);
        let ends = ["execution.step.failed", "session.failed"];
        assert_eq!(told(failed, run("running", "failed_terminal")), ends);
    }

    #[test]
    fn a_step_that_gave_something_is_done_with_it() {
        let output = json!({ "sha256": "0".repeat(64), "bytes": 2 });
        let succeeded = json!({ "kind": "step_succeeded", "output": output });
        let step = json!({ "step": { "seq": 0, "id": "a", "from": "running", "to": "succeeded" } });
        assert_eq!(told(succeeded, step), ["execution.step.output", "execution.step.completed"]);
    }

    #[test]
    fn a_gate_that_is_passed_is_a_step_that_is_done() {
        let step = json!({ "step": { "seq": 0, "id": "a", "from": "waiting_approval", "to": "succeeded" } });
        let resolved = json!({ "kind": "approval_withdrawn", "approval": "a.1", "reason": "" });
        assert_eq!(told(resolved, step), ["approval.resolved", "execution.step.completed"]);
    }

    #[test]
    fn a_rollback_is_complete_when_the_run_that_rolled_back_ends() {
        let effects = json!({ "done": 1, "undone": 1, "unknown": 0 });
        let canceled = json!({ "kind": "run_canceled", "reason": "", "effects": effects });
        let failed = json!({ "kind": "run_failed", "reason": "", "effects": effects });
        let stopped = ["countersign.run.canceled"];
        assert_eq!(told(canceled.clone(), run("paused", "canceled")), stopped);
        let taken_back = ["execution.rollback.completed", "countersign.run.canceled"];
        assert_eq!(told(canceled, run("rolling_back", "canceled")), taken_back);
        let taken_back = ["execution.rollback.completed", "session.failed"];
        assert_eq!(told(failed, run("rolling_back", "failed_terminal")), taken_back);
    }

    #[test]
    fn every_type_has_a_name_of_its_own_and_stands_in_the_document() {
        let document = include_str!("../../../../docs/stream.md");
        for kind in Kind::ALL {
            assert!(document.contains(&format!("| `{}` |", kind.as_str())), "{}", kind.as_str());
            let named = Kind::ALL.iter().filter(|other| other.as_str() == kind.as_str());
            assert_eq!(named.count(), 1, "{}", kind.as_str());
        }
    }
}
