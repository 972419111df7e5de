//! What happened, in the order it happened: the entries of a run's chain.
//!
//! An event names the transitions it made, who or what caused it, and fingerprints where the ledger keeps
//! payloads; it never holds a payload itself.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::Failure;
use crate::id::{EventName, Fence, SignalId, StepId, StepSeq, WorkerId, WorkflowName};
use crate::initiator::Initiator;
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, StepStatus};
use crate::payload::Fingerprint;
use crate::record::{Effects, Trigger};
use crate::time::Timestamp;

/// One entry of a run's chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 0 without a gap.
    pub n: u32,
    /// When it was decided, on the decider's clock.
    pub at: Timestamp,
    /// Who or what caused it.
    pub by: Initiator,
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
    /// A person is asked.
    ApprovalRequested {
        /// What they are asked, by digest; the text stands on the record.
        message: Fingerprint,
        /// Until when.
        deadline: Timestamp,
    },
    /// A person answered.
    ApprovalDecided {
        /// Yes or no.
        approved: bool,
        /// In their words.
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
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
