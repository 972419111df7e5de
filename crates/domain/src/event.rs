//! What happened, in the order it happened: the entries of a run's chain.
//!
//! An event names the transitions it made, who or what caused it, and fingerprints where the ledger keeps
//! payloads; it never holds a payload itself.

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
use crate::payload::Fingerprint;
use crate::record::{Effects, Trigger, Usage};
use crate::time::Timestamp;
use crate::verdict::{Demand, Verdict};

/// One entry of a run's chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 0 without a gap.
    pub n: u32,
    /// When it was decided, on the decider's clock.
    pub at: Timestamp,
    /// Who or what caused it.
    pub by: Initiator,
    /// The step it is about: where the run stood.
    pub seq: StepSeq,
    /// Whether it is about taking that step back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The run's transition, if it made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunTransition>,
    /// The step's transition, if it made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepTransition>,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

impl Event {
    /// Whether a person said how the run goes on.
    pub fn is_a_persons_word(&self) -> bool {
        match self.body {
            EventBody::ApprovalVoted { .. } | EventBody::RunResumed { .. } => true,
            // A run that fails takes its effects back by itself.
            EventBody::RollbackStarted { .. } => self.by.cause == Cause::User,
            _ => false,
        }
    }
}

/// A run's transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTransition {
    /// From here; absent when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RunStatus>,
    /// To here.
    pub to: RunStatus,
}

/// A step's transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTransition {
    /// Its place in the run.
    pub seq: StepSeq,
    /// Its name.
    pub id: StepId,
    /// From here.
    pub from: StepStatus,
    /// To here.
    pub to: StepStatus,
}

/// How a held step was worked on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number, from 0.
    pub number: u32,
    /// Who worked on it.
    pub worker: WorkerId,
    /// Under which fence.
    pub fence: Fence,
    /// Since when.
    pub since: Timestamp,
}

/// A receipt as an event names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRef {
    /// The effect's key.
    pub key: IdempotencyKey,
    /// The hash of the exact action.
    pub action: Digest,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EventBody {
    /// The run was admitted.
    RunAdmitted {
        /// Of which workflow.
        workflow: WorkflowName,
        /// Of which version of it.
        version: u32,
        /// Under which plan.
        plan: Digest,
        /// Because of what.
        trigger: Trigger,
        /// With what input.
        input: Fingerprint,
    },
    /// A tool call succeeded.
    StepSucceeded {
        /// How it was worked on; absent when an earlier receipt was reused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// What it gave.
        output: Fingerprint,
        /// The effect it had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<ReceiptRef>,
        /// What it cost, in millionths of a US dollar.
        #[serde(default, skip_serializing_if = "is_zero")]
        cost_microusd: u64,
        /// What that was for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// An attempt failed; another is due.
    AttemptFailed {
        /// Which attempt, from 0.
        number: u32,
        /// Why.
        failure: Failure,
        /// When the next one is due.
        not_before: Timestamp,
    },
    /// A step failed for good.
    StepFailed {
        /// In which attempt, from 0.
        number: u32,
        /// Why.
        failure: Failure,
    },
    /// A holder went silent and its step was taken over.
    LeaseExpired {
        /// The holder that went silent.
        silent: WorkerId,
        /// The fence that now counts.
        fence: Fence,
        /// Which attempt begins, from 0.
        number: u32,
    },
    /// Nobody knows whether an effect happened; the run waits for a person.
    OutcomeUnknown {
        /// The effect.
        receipt: ReceiptRef,
        /// What is known.
        failure: Failure,
    },
    /// A wait was opened.
    WaitOpened {
        /// For which event.
        event: EventName,
        /// Until when.
        deadline: Timestamp,
    },
    /// An event came before its wait was open, and is kept.
    EventKept {
        /// Which event.
        event: EventName,
        /// Which delivery.
        signal: SignalId,
        /// What came with it.
        payload: Fingerprint,
    },
    /// An event ended a wait.
    EventDelivered {
        /// Which event.
        event: EventName,
        /// Which delivery.
        signal: SignalId,
        /// What came with it.
        payload: Fingerprint,
    },
    /// A deadline passed.
    TimedOut {
        /// What it ended.
        failure: Failure,
    },
    /// An effect is about to be attempted: this verdict, and this approval where one was needed, allow it.
    EffectIntended {
        /// The effect.
        receipt: ReceiptRef,
        /// The tool that does it.
        tool: ToolName,
        /// What is promised about being asked again.
        class: EffectClass,
        /// What it changes.
        target: String,
        /// What policy said.
        verdict: Verdict,
        /// The approval that is used for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<ApprovalId>,
        /// Under which fence.
        fence: Fence,
    },
    /// Policy said no, and so the step failed.
    ActionDenied {
        /// The effect that does not happen.
        receipt: ReceiptRef,
        /// The tool that would have done it.
        tool: ToolName,
        /// What it would have changed.
        target: String,
        /// What policy said.
        verdict: Verdict,
    },
    /// People are asked.
    ApprovalRequested {
        /// Which request.
        approval: ApprovalId,
        /// The hash of what they are asked about: an action, or a question.
        subject: Digest,
        /// Who must say yes.
        demand: Demand,
        /// What policy said, if it is about an action.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        verdict: Option<Verdict>,
        /// Who may not answer.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        excluded: Vec<PersonId>,
        /// When an answer is overdue.
        sla_at: Timestamp,
        /// When the question lapses.
        expires_at: Timestamp,
    },
    /// A person answered.
    ApprovalVoted {
        /// Which request.
        approval: ApprovalId,
        /// The hash of what they answered about.
        subject: Digest,
        /// What they said.
        vote: Vote,
        /// How the request stands with it.
        status: ApprovalStatus,
    },
    /// People were asked again.
    ApprovalReminded {
        /// Which request.
        approval: ApprovalId,
    },
    /// The answer is overdue, and others are told.
    ApprovalEscalated {
        /// Which request.
        approval: ApprovalId,
    },
    /// Nobody answered in time.
    ApprovalExpired {
        /// Which request.
        approval: ApprovalId,
        /// How that ends the step.
        failure: Failure,
    },
    /// The question was withdrawn before it was used.
    ApprovalWithdrawn {
        /// Which request.
        approval: ApprovalId,
        /// Why.
        reason: String,
    },
    /// Somebody asked to stop the run while its step was held.
    CancelRequested {
        /// Why.
        reason: String,
    },
    /// The run was stopped.
    RunCanceled {
        /// Why.
        reason: String,
        /// What became of its effects.
        effects: Effects,
    },
    /// The run failed, and everything it did that says how has been taken back.
    RunFailed {
        /// Why.
        reason: String,
        /// What became of its effects.
        effects: Effects,
    },
    /// Somebody asked to pause the run while its step was held.
    PauseRequested {
        /// Why.
        reason: String,
    },
    /// The run waits for an operator.
    RunPaused {
        /// Why.
        reason: String,
    },
    /// An operator said to go on.
    RunResumed {
        /// Why.
        reason: String,
    },
    /// Effects are being taken back.
    RollbackStarted {
        /// The first to be taken back.
        from: StepSeq,
        /// Why.
        reason: String,
    },
    /// A step's effect was taken back.
    StepRolledBack {
        /// How that was worked on; absent when an earlier receipt was reused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        /// The effect that took it back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<ReceiptRef>,
        /// What it gave.
        output: Fingerprint,
        /// What it cost, in millionths of a US dollar.
        #[serde(default, skip_serializing_if = "is_zero")]
        cost_microusd: u64,
        /// What that was for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
