//! The events of a run's chain.
//!
//! An event names its transitions, its cause, and the fingerprints of payloads. It never contains a payload.

use serde::{Deserialize, Serialize};

use crate::approval::{ApprovalStatus, Vote};
use crate::digest::Digest;
use crate::effect::EffectClass;
use crate::failure::Failure;
use crate::id::{
    ApprovalId, EventName, Fence, PersonId, SignalId, StepId, StepSeq, ToolName, WorkerId, WorkflowName,
};
use crate::initiator::{Cause, Initiator};
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, StepStatus};
use crate::participant::Participants;
use crate::payload::Fingerprint;
use crate::record::{Effects, ModelUsage, Trigger};
use crate::time::Timestamp;
use crate::verdict::{ApprovalRequirement, Verdict};

/// One event of a run's chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The number, from 0 without gaps.
    pub n: u32,
    /// The time of the decision, by the decider's clock.
    pub at: Timestamp,
    /// Who or what caused it.
    pub by: Initiator,
    /// The current step.
    pub seq: StepSeq,
    /// Whether the event is about the rollback of that step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback: bool,
    /// The transition of the run, if it made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatusChange>,
    /// The transition of the step, if it made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepStatusChange>,
    /// The verdict on the read that the attempt performed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_verdict: Option<Verdict>,
    /// The content.
    #[serde(flatten)]
    pub body: EventBody,
}

impl Event {
    /// Whether a user decided how the run continues.
    pub fn is_human_decision(&self) -> bool {
        match self.body {
            EventBody::ApprovalVoted { .. } | EventBody::RunResumed { .. } => true,
            // A failed run starts its rollback by itself.
            EventBody::RollbackStarted { .. } => self.by.cause == Cause::User,
            _ => false,
        }
    }
}

/// A transition of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatusChange {
    /// The previous status; absent for a new run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RunStatus>,
    /// The new status.
    pub to: RunStatus,
}

/// A transition of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStatusChange {
    /// The position of the step.
    pub seq: StepSeq,
    /// The id of the step.
    pub id: StepId,
    /// The previous status.
    pub from: StepStatus,
    /// The new status.
    pub to: StepStatus,
}

/// An attempt at a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The number, from 0.
    pub number: u32,
    /// The worker.
    pub worker: WorkerId,
    /// The fence of the lease.
    pub fence: Fence,
    /// When the attempt started.
    pub since: Timestamp,
}

/// A reference to a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRef {
    /// The idempotency key of the effect.
    pub key: IdempotencyKey,
    /// The hash of the exact action.
    pub action: Digest,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventBody {
    /// The run was admitted.
    RunAdmitted {
        /// The workflow.
        workflow: WorkflowName,
        /// The version of the workflow.
        version: u32,
        /// The hash of the plan.
        plan: Digest,
        /// What started the run.
        trigger: Trigger,
        /// The fingerprint of the input.
        input: Fingerprint,
    },
    /// A tool call succeeded.
    StepSucceeded {
        /// The attempt; absent if an earlier receipt was reused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// The fingerprint of the output.
        output: Fingerprint,
        /// The effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<ReceiptRef>,
        /// The cost in millionths of a US dollar.
        #[serde(default, skip_serializing_if = "is_zero")]
        cost_microusd: u64,
        /// The metered usage behind the cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<ModelUsage>,
    },
    /// An attempt failed, and another is scheduled.
    AttemptFailed {
        /// The attempt, from 0.
        number: u32,
        /// Why.
        failure: Failure,
        /// When the next attempt is due.
        not_before: Timestamp,
    },
    /// An attempt failed or was discarded, and its cost counts. The event of its failure follows.
    AttemptCharged {
        /// The attempt, from 0.
        number: u32,
        /// The cost in millionths of a US dollar.
        #[serde(default, skip_serializing_if = "is_zero")]
        cost_microusd: u64,
        /// The metered usage behind the cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<ModelUsage>,
    },
    /// A step failed permanently.
    StepFailed {
        /// The attempt, from 0.
        number: u32,
        /// Why.
        failure: Failure,
    },
    /// A lease expired, and another worker took over the step.
    LeaseExpired {
        /// The worker whose lease expired.
        previous_worker: WorkerId,
        /// The new fence.
        fence: Fence,
        /// The new attempt, from 0.
        number: u32,
    },
    /// The outcome of an effect is unknown, and the run waits for an operator.
    OutcomeUnknown {
        /// The effect.
        receipt: ReceiptRef,
        /// What is known.
        failure: Failure,
    },
    /// A wait opened.
    WaitOpened {
        /// The event.
        event: EventName,
        /// When the wait times out.
        deadline: Timestamp,
    },
    /// An event arrived before its wait and is buffered.
    EventBuffered {
        /// The event.
        event: EventName,
        /// The delivery.
        signal: SignalId,
        /// The fingerprint of the payload.
        payload: Fingerprint,
    },
    /// An event ended a wait.
    EventDelivered {
        /// The event.
        event: EventName,
        /// The delivery.
        signal: SignalId,
        /// The fingerprint of the payload.
        payload: Fingerprint,
    },
    /// A wait timed out.
    TimedOut {
        /// The failure.
        failure: Failure,
    },
    /// An effect is about to be attempted, allowed by this verdict and, if required, this approval.
    EffectIntended {
        /// The effect.
        receipt: ReceiptRef,
        /// The tool.
        tool: ToolName,
        /// Whether and how the effect can be repeated.
        class: EffectClass,
        /// What it changes.
        target: String,
        /// The verdict.
        verdict: Verdict,
        /// The approval that it uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ApprovalId>,
        /// The fence of the lease.
        fence: Fence,
    },
    /// Policy denied the action, and the step failed.
    ActionDenied {
        /// The effect, which does not happen.
        receipt: ReceiptRef,
        /// The tool.
        tool: ToolName,
        /// What it would have changed.
        target: String,
        /// The verdict.
        verdict: Verdict,
    },
    /// An approval was requested.
    ApprovalRequested {
        /// The approval.
        approval: ApprovalId,
        /// The hash of the subject: an action or a question.
        subject: Digest,
        /// Who must approve.
        requirement: ApprovalRequirement,
        /// The verdict, if the subject is an action.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<Verdict>,
        /// The users who shaped the subject, and so may not vote.
        #[serde(default, skip_serializing_if = "Participants::is_empty")]
        excluded: Participants,
        /// When the approval is overdue.
        sla_at: Timestamp,
        /// When the approval expires.
        expires_at: Timestamp,
    },
    /// A user voted.
    ApprovalVoted {
        /// The approval.
        approval: ApprovalId,
        /// The hash of the subject.
        subject: Digest,
        /// The vote.
        vote: Vote,
        /// The status of the approval after the vote.
        status: ApprovalStatus,
        /// The users whose earlier approval no longer counts, because they may not vote any more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        discounted: Vec<PersonId>,
    },
    /// The approvers were reminded.
    ApprovalReminded {
        /// The approval.
        approval: ApprovalId,
    },
    /// The approval is overdue and was escalated.
    ApprovalEscalated {
        /// The approval.
        approval: ApprovalId,
    },
    /// The approval expired.
    ApprovalExpired {
        /// The approval.
        approval: ApprovalId,
        /// The failure of the step.
        failure: Failure,
    },
    /// The approval was withdrawn before it was used.
    ApprovalWithdrawn {
        /// The approval.
        approval: ApprovalId,
        /// Why.
        reason: String,
    },
    /// A user asked to cancel the run while its step was leased.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// The run was canceled.
    RunCanceled {
        /// Why.
        reason: String,
        /// The counts of its effects.
        effects: Effects,
    },
    /// The run failed, and its rollback is complete.
    RunFailed {
        /// Why.
        reason: String,
        /// The counts of its effects.
        effects: Effects,
    },
    /// A user asked to pause the run while its step was leased.
    PauseRequested {
        /// Why.
        reason: String,
    },
    /// The run paused and waits for an operator.
    RunPaused {
        /// Why.
        reason: String,
    },
    /// An operator resumed the run.
    RunResumed {
        /// Why.
        reason: String,
    },
    /// A rollback started.
    RollbackStarted {
        /// The first step to rollback.
        from: StepSeq,
        /// Why.
        reason: String,
    },
    /// A step was rolled back.
    StepRolledBack {
        /// The attempt; absent if an earlier receipt was reused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// The effect that undid it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<ReceiptRef>,
        /// The fingerprint of the output.
        output: Fingerprint,
        /// The cost in millionths of a US dollar.
        #[serde(default, skip_serializing_if = "is_zero")]
        cost_microusd: u64,
        /// The metered usage behind the cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<ModelUsage>,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
