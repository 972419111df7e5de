//! The event types of the stream, and the types of each event of the chain.
//!
//! One event of the chain can have several types: the event that completes the last step also completes the run. Each
//! type gets its own envelope, so a listener for `session.completed` does not need to know the last step.

use domain::{Event, EventBody, RunStatus, StepStatus};

/// An event type of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A run was admitted.
    SessionCreated,
    /// A worker took over from one whose lease expired.
    SessionAssigned,
    /// A step waits for approval.
    ApprovalRequested,
    /// The approval was decided, expired, or was withdrawn.
    ApprovalResolved,
    /// An effect is about to be attempted.
    StepStarted,
    /// A step produced its output.
    StepOutput,
    /// A step completed.
    StepCompleted,
    /// An attempt or a step failed.
    StepFailed,
    /// The run started to roll back its effects.
    RollbackStarted,
    /// All effects that can be rolled back are rolled back.
    RollbackCompleted,
    /// The run succeeded.
    SessionCompleted,
    /// The run failed.
    SessionFailed,
    /// One approver decided, and a second one is required.
    ApprovalVoted,
    /// A reminder was sent to the approvers.
    ApprovalReminded,
    /// The approval is overdue and was escalated.
    ApprovalEscalated,
    /// The policy denied an action.
    ActionDenied,
    /// The outcome of an effect is unknown.
    OutcomeUnknown,
    /// The effect of a step was rolled back.
    StepRolledBack,
    /// A step waits for an external event.
    WaitOpened,
    /// The external event did not arrive in time.
    WaitTimedOut,
    /// A signal arrived before its step waited for it.
    SignalBuffered,
    /// A signal was delivered to its step.
    SignalDelivered,
    /// A user asked to cancel the run.
    CancelRequested,
    /// The run was canceled.
    RunCanceled,
    /// A user asked to pause the run.
    PauseRequested,
    /// The run waits for an operator.
    RunPaused,
    /// An operator resumed the run.
    RunResumed,
}

impl Kind {
    /// Every type, the twelve standard types first.
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
        Self::SignalBuffered,
        Self::SignalDelivered,
        Self::CancelRequested,
        Self::RunCanceled,
        Self::PauseRequested,
        Self::RunPaused,
        Self::RunResumed,
    ];

    /// The name in an envelope. All but the twelve standard types start with `countersign.`.
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
            Self::SignalBuffered => "countersign.signal.buffered",
            Self::SignalDelivered => "countersign.signal.delivered",
            Self::CancelRequested => "countersign.run.cancel_requested",
            Self::RunCanceled => "countersign.run.canceled",
            Self::PauseRequested => "countersign.run.pause_requested",
            Self::RunPaused => "countersign.run.paused",
            Self::RunResumed => "countersign.run.resumed",
        }
    }

    /// Whether the type is about the whole run, not about the current step.
    pub(super) fn is_about_the_run(self) -> bool {
        matches!(
            self,
            Self::SessionCreated
                | Self::RollbackStarted
                | Self::RollbackCompleted
                | Self::SessionCompleted
                | Self::SessionFailed
                | Self::SignalBuffered
                | Self::CancelRequested
                | Self::RunCanceled
                | Self::PauseRequested
                | Self::RunPaused
                | Self::RunResumed
        )
    }
}

/// The types of an event of the chain: its own type, then the types for the new status of the step and of the run.
pub fn kinds(event: &Event) -> Vec<Kind> {
    let mut kinds = vec![body_kind(event)];
    for kind in [step_kind(event), run_kind(event)].into_iter().flatten() {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn body_kind(event: &Event) -> Kind {
    use domain::ApprovalStatus::Requested;
    let was_rolling_back = event.run.is_some_and(|run| run.from == Some(RunStatus::RollingBack));
    match &event.body {
        EventBody::RunAdmitted { .. } => Kind::SessionCreated,
        EventBody::StepSucceeded { .. } => Kind::StepOutput,
        EventBody::AttemptFailed { .. } | EventBody::StepFailed { .. } => Kind::StepFailed,
        EventBody::LeaseExpired { .. } => Kind::SessionAssigned,
        EventBody::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
        EventBody::WaitOpened { .. } => Kind::WaitOpened,
        EventBody::EventBuffered { .. } => Kind::SignalBuffered,
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
        // A run that rolls back is canceled only after the rollback.
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

fn step_kind(event: &Event) -> Option<Kind> {
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

fn run_kind(event: &Event) -> Option<Kind> {
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

    fn types(mut event: Value, more: Value) -> Vec<&'static str> {
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
    fn last_step_also_ends_the_run() {
        let failed =
            json!({ "kind": "step_failed", "number": 0, "failure": { "code": "X", "message": "x" } });
        assert_eq!(types(failed.clone(), run("running", "running")), ["execution.step.failed"]);
        let ends = ["execution.step.failed", "session.failed"];
        assert_eq!(types(failed, run("running", "failed_terminal")), ends);
    }

    #[test]
    fn output_completes_the_step() {
        let output = json!({ "sha256": "0".repeat(64), "bytes": 2 });
        let succeeded = json!({ "kind": "step_succeeded", "output": output });
        let step = json!({ "step": { "seq": 0, "id": "a", "from": "running", "to": "succeeded" } });
        assert_eq!(types(succeeded, step), ["execution.step.output", "execution.step.completed"]);
    }

    #[test]
    fn resolved_approval_completes_the_step() {
        let step = json!({ "step": { "seq": 0, "id": "a", "from": "waiting_approval", "to": "succeeded" } });
        let resolved = json!({ "kind": "approval_withdrawn", "approval": "a.1", "reason": "" });
        assert_eq!(types(resolved, step), ["approval.resolved", "execution.step.completed"]);
    }

    #[test]
    fn rollback_completes_when_the_run_ends() {
        let effects = json!({ "done": 1, "undone": 1, "unknown": 0 });
        let canceled = json!({ "kind": "run_canceled", "reason": "", "effects": effects });
        let failed = json!({ "kind": "run_failed", "reason": "", "effects": effects });
        let canceled_only = ["countersign.run.canceled"];
        assert_eq!(types(canceled.clone(), run("paused", "canceled")), canceled_only);
        let rolled_back = ["execution.rollback.completed", "countersign.run.canceled"];
        assert_eq!(types(canceled, run("rolling_back", "canceled")), rolled_back);
        let rolled_back = ["execution.rollback.completed", "session.failed"];
        assert_eq!(types(failed, run("rolling_back", "failed_terminal")), rolled_back);
    }

    #[test]
    fn every_type_is_unique_and_documented() {
        let document = include_str!("../../../../docs/stream.md");
        for kind in Kind::ALL {
            assert!(document.contains(&format!("| `{}` |", kind.as_str())), "{}", kind.as_str());
            let named = Kind::ALL.iter().filter(|other| other.as_str() == kind.as_str());
            assert_eq!(named.count(), 1, "{}", kind.as_str());
        }
    }
}
