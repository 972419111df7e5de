//! The event types of the stream, and the types of each event of the chain.
//!
//! One event of the chain can have several types: the event that completes the last step also completes the run. Each
//! type gets its own envelope, so a listener for `session.completed` does not need to know the last step.

use domain::{Event, EventBody, RunStatus, StepStatus};
use strum::{IntoStaticStr, VariantArray};

/// An event type of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
pub enum Kind {
    /// A run was admitted.
    #[strum(serialize = "session.created")]
    SessionCreated,
    /// A worker took over from one whose lease expired.
    #[strum(serialize = "session.assigned")]
    SessionAssigned,
    /// A step waits for approval.
    #[strum(serialize = "approval.requested")]
    ApprovalRequested,
    /// The approval was decided, expired, or was withdrawn.
    #[strum(serialize = "approval.resolved")]
    ApprovalResolved,
    /// An effect is about to be attempted.
    #[strum(serialize = "execution.step.started")]
    StepStarted,
    /// A step produced its output.
    #[strum(serialize = "execution.step.output")]
    StepOutput,
    /// A step completed.
    #[strum(serialize = "execution.step.completed")]
    StepCompleted,
    /// An attempt or a step failed.
    #[strum(serialize = "execution.step.failed")]
    StepFailed,
    /// The run started to roll back its effects.
    #[strum(serialize = "execution.rollback.started")]
    RollbackStarted,
    /// All effects that can be rolled back are rolled back.
    #[strum(serialize = "execution.rollback.completed")]
    RollbackCompleted,
    /// The run succeeded.
    #[strum(serialize = "session.completed")]
    SessionCompleted,
    /// The run failed.
    #[strum(serialize = "session.failed")]
    SessionFailed,
    /// One approver decided, and a second one is required.
    #[strum(serialize = "countersign.approval.voted")]
    ApprovalVoted,
    /// A reminder was sent to the approvers.
    #[strum(serialize = "countersign.approval.reminded")]
    ApprovalReminded,
    /// The approval is overdue and was escalated.
    #[strum(serialize = "countersign.approval.escalated")]
    ApprovalEscalated,
    /// The policy denied an action.
    #[strum(serialize = "countersign.action.denied")]
    ActionDenied,
    /// The outcome of an effect is unknown.
    #[strum(serialize = "countersign.step.outcome_unknown")]
    OutcomeUnknown,
    /// A failed or discarded attempt had a cost.
    #[strum(serialize = "countersign.step.charged")]
    StepCharged,
    /// The effect of a step was rolled back.
    #[strum(serialize = "countersign.step.rolled_back")]
    StepRolledBack,
    /// A step waits for an external event.
    #[strum(serialize = "countersign.wait.opened")]
    WaitOpened,
    /// The external event did not arrive in time.
    #[strum(serialize = "countersign.wait.timed_out")]
    WaitTimedOut,
    /// A signal arrived before its step waited for it.
    #[strum(serialize = "countersign.signal.buffered")]
    SignalBuffered,
    /// A signal was delivered to its step.
    #[strum(serialize = "countersign.signal.delivered")]
    SignalDelivered,
    /// A user asked to cancel the run.
    #[strum(serialize = "countersign.run.cancel_requested")]
    CancelRequested,
    /// The run was canceled.
    #[strum(serialize = "countersign.run.canceled")]
    RunCanceled,
    /// A user asked to pause the run.
    #[strum(serialize = "countersign.run.pause_requested")]
    PauseRequested,
    /// The run waits for an operator.
    #[strum(serialize = "countersign.run.paused")]
    RunPaused,
    /// An operator resumed the run.
    #[strum(serialize = "countersign.run.resumed")]
    RunResumed,
}

impl Kind {
    /// Every type, the twelve standard types first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name in an envelope. All but the twelve standard types start with `countersign.`.
    pub fn as_str(self) -> &'static str {
        self.into()
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
        EventBody::AttemptCharged { .. } => Kind::StepCharged,
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
        for &kind in Kind::ALL {
            assert!(document.contains(&format!("| `{}` |", kind.as_str())), "{}", kind.as_str());
            let named = Kind::ALL.iter().filter(|other| other.as_str() == kind.as_str());
            assert_eq!(named.count(), 1, "{}", kind.as_str());
        }
    }
}
