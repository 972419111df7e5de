//! The ledger's records of a run.
//!
//! A run is linear, so at most one of its steps is current. The run's record holds the state of that step. A step's
//! own record is written once, when the step ends. A claim is therefore one conditional write of one small record, and
//! no record grows with the length of the run.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::effect::EffectClass;
use crate::failure::Failure;
use crate::id::{
    ApprovalId, EventName, Fence, OpId, PersonId, RunId, RunKey, SignalId, StepSeq, Version, WorkerId,
    WorkflowName, WorkspaceId,
};
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, StepStatus};
use crate::participant::Participants;
use crate::payload::{BlobRef, Fingerprint, Payload};
use crate::plan::{OnTimeout, Phase};
use crate::record_name::RecordName;
use crate::time::{Millis, Timestamp};
use crate::trace::TraceContext;

/// The sweep wakes a run after this time without a write.
pub const ORPHANED_AFTER: Millis = Millis::mins(5);

/// The maximum number of buffered signals of a run. More indicate a faulty sender.
pub const BUFFERED_SIGNALS_MAX: usize = 16;

/// The main record of a run, under 1 KB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The tenant and the run id.
    #[serde(flatten)]
    pub key: RunKey,
    /// The workspace of the tenant.
    pub workspace: WorkspaceId,
    /// The workflow.
    pub workflow: WorkflowName,
    /// The version of the workflow.
    pub workflow_version: u32,
    /// The hash of the plan.
    pub plan: Digest,
    /// The number of steps.
    pub steps: u16,
    /// What started the run.
    pub trigger: Trigger,
    /// The caller's trace, if the trigger carried one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The status.
    pub status: RunStatus,
    /// Incremented by every write.
    pub version: Version,
    /// The id of the last write.
    pub op: OpId,
    /// The number of events, which is the number of the next event.
    pub events: u32,
    /// The hash of the newest event.
    pub head: Digest,
    /// The largest fence granted.
    pub fence: Fence,
    /// The current step.
    pub at: StepSeq,
    /// The state of the current step.
    pub step_state: StepState,
    /// A request to cancel, made while the step was leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<OperatorRequest>,
    /// A request to pause, made while the step was leased; or the reason why the run is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<OperatorRequest>,
    /// The rollback in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// Events that arrived before their wait.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffered_signals: Vec<BufferedSignal>,
    /// The users who shaped the run after it was admitted.
    #[serde(default, skip_serializing_if = "Participants::is_empty")]
    pub participants: Participants,
    /// The last rejection of the current step's action, after which the run paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejection>,
    /// The number of take-overs and resumes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resumes: u32,
    /// The number of approvals requested, which is the number of the next one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub approvals: u32,
    /// The steps whose effects this run performed.
    #[serde(default)]
    pub acted: ActedSteps,
    /// The phase whose first action was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The number of effects performed, undone and unknown.
    pub effects: Effects,
    /// The cost of all attempts that ended, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_microusd: u64,
    /// When the run was admitted.
    pub created_at: Timestamp,
    /// When the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When the sweep wakes the run, unless it is advanced before. Every active run that is not paused has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
}

/// What started a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// The kind: `cli`, `api`, `console`, `servicenow`, `github`, `slack`, `schedule`.
    pub kind: String,
    /// The idempotency key of the request.
    pub reference: IdempotencyKey,
    /// The digest of the input, to tell a repeated request from a conflicting one.
    pub input: Digest,
    /// The external record that the run is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordName>,
    /// The user who requested the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<PersonId>,
    /// The user who applied the version of the workflow, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_by: Option<PersonId>,
    /// The users who shaped the run that this run undoes, and so its actions.
    #[serde(default, skip_serializing_if = "Participants::is_empty")]
    pub shaped_by: Participants,
}

/// A rejection of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    /// The user who rejected the action.
    pub by: PersonId,
    /// When.
    pub at: Timestamp,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A request by an operator that takes effect later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRequest {
    /// Who made the request.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// A rollback in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The first step that may be undone.
    pub floor: StepSeq,
    /// Why.
    pub reason: String,
    /// How the run ends after the rollback.
    #[serde(default)]
    pub ends: RollbackEnds,
}

/// How a run ends after its rollback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollbackEnds {
    /// A user requested the rollback.
    #[default]
    Canceled,
    /// A step failed.
    Failed,
}

/// An event that arrived before its wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferedSignal {
    /// The event.
    pub event: EventName,
    /// The delivery.
    pub signal: SignalId,
}

/// The number of effects of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// Effects that this run performed.
    pub done: u32,
    /// How many of those were undone.
    pub undone: u32,
    /// Effects with an unknown outcome that an operator gave up on.
    pub unknown: u32,
}

/// A set of steps; a plan has at most 64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActedSteps(u64);

impl ActedSteps {
    /// Adds a step.
    pub fn add(&mut self, seq: StepSeq) {
        self.0 |= 1_u64.checked_shl(u32::from(seq.0)).unwrap_or(0);
    }

    /// Whether the step is in the set.
    pub fn has(self, seq: StepSeq) -> bool {
        self.0 & 1_u64.checked_shl(u32::from(seq.0)).unwrap_or(0) != 0
    }
}

// As text, because JSON readers do not agree on integers above 2^53.
impl From<ActedSteps> for String {
    fn from(steps: ActedSteps) -> Self {
        format!("{:x}", steps.0)
    }
}

impl TryFrom<String> for ActedSteps {
    type Error = std::num::ParseIntError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

/// The state of the current step, or of its rollback.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum StepState {
    /// May be claimed.
    Ready {
        /// The number of failed attempts.
        attempt: u32,
        /// An intent with an unknown outcome, which an operator authorized to repeat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        authorized: Option<Intent>,
        /// The approval of the action.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved: Option<ApprovalId>,
    },
    /// Leased by a worker.
    Running(Lease),
    /// Waits for its next attempt.
    Retrying {
        /// The number of failed attempts.
        attempt: u32,
        /// When the next attempt is due.
        not_before: Timestamp,
        /// Why the last attempt failed.
        failure: Failure,
        /// An intent with an unknown outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<Intent>,
        /// The approval, if it covers another attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved: Option<ApprovalId>,
    },
    /// Waits for an operator, because the outcome of its effect is unknown or its rollback failed.
    Unresolved {
        /// The number of failed attempts.
        attempt: u32,
        /// What is known.
        failure: Failure,
        /// The intent with an unknown outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<Intent>,
    },
    /// Waits for an event.
    WaitingEvent {
        /// The event.
        event: EventName,
        /// When the wait times out.
        deadline: Timestamp,
        /// What a timeout does.
        on_timeout: OnTimeout,
    },
    /// Waits for an approval.
    WaitingApproval {
        /// The approval.
        approval: ApprovalId,
        /// The number of failed attempts.
        #[serde(default)]
        attempt: u32,
        /// An intent with an unknown outcome, which is to be repeated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<Intent>,
        /// When the next reminder or escalation is due; never after `deadline`.
        next_reminder_at: Timestamp,
        /// When the approval expires.
        deadline: Timestamp,
    },
    /// The run has ended.
    Ended {
        /// The final status of the last step.
        status: StepStatus,
    },
}

/// A worker's lease on a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// The worker.
    pub owner: WorkerId,
    /// The fence of the lease.
    pub fence: Fence,
    /// The number of failed attempts before this one.
    pub attempt: u32,
    /// When the lease was granted.
    pub since: Timestamp,
    /// When the lease expires, unless renewed. Safety does not depend on it; the fence ensures that.
    pub until: Timestamp,
    /// The write that granted the lease. A worker that finds its own id here holds the lease, even if the record was
    /// written since.
    pub op: OpId,
    /// The effect that may be in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// The approval of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<ApprovalId>,
}

/// An effect that may be in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The idempotency key of the effect and of its receipt.
    pub key: IdempotencyKey,
    /// The hash of the exact action.
    pub action: Digest,
    /// Whether and how the effect can be repeated.
    pub class: EffectClass,
    /// Whether the action destroys data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destructive: bool,
    /// Whether another run wrote the intent and ended with an unknown outcome. This run has only paused for an
    /// operator's decision about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

/// The record of a step, written when the step ends, and again when it is rolled back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The position of the step.
    pub seq: StepSeq,
    /// Whether this is the record of the rollback.
    pub rollback: bool,
    /// The final status.
    pub status: StepStatus,
    /// The number of the event that ended the step.
    pub event: u32,
    /// The write that ended the step.
    pub op: OpId,
    /// The output of a successful step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// The fingerprint of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// The key of the step's effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<IdempotencyKey>,
    /// The cost in millionths of a US dollar.
    #[serde(default)]
    pub cost_microusd: u64,
    /// The metered usage behind the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
}

/// The metered usage of a model by a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The provider.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The number of input tokens.
    pub input_tokens: u64,
    /// The number of output tokens.
    pub output_tokens: u64,
}

/// What an attempt cost that did not end its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The cost in millionths of a US dollar.
    pub cost_microusd: u64,
    /// The metered usage behind the cost.
    pub usage: Option<ModelUsage>,
}

/// The location of the evidence of a finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The evidence bundle.
    pub bundle: BlobRef,
    /// The name under which the store has the bundle.
    pub name: String,
    /// The index of the run in the transparency log.
    pub index: u64,
    /// When the evidence was recorded.
    pub recorded_at: Timestamp,
}

/// An external event that was delivered to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// The id of the delivery.
    pub id: SignalId,
    /// The event.
    pub event: EventName,
    /// The payload.
    pub payload: Payload,
    /// The fingerprint of the payload.
    pub fingerprint: Fingerprint,
    /// When it arrived.
    pub at: Timestamp,
    /// Whether it is buffered until its wait opens.
    pub buffered: bool,
}

impl Intent {
    /// Whether another attempt is not harmless: the workflow must ask for it, and if the outcome is unknown, a person
    /// must decide about it.
    pub fn is_risky(&self) -> bool {
        self.destructive || self.class == EffectClass::Opaque
    }
}

impl StepState {
    /// A step without attempts.
    pub const FRESH: Self = Self::Ready { attempt: 0, authorized: None, approved: None };

    /// The state as a step status.
    pub fn status(&self) -> StepStatus {
        match self {
            Self::Ready { .. } => StepStatus::Ready,
            Self::Running(_) => StepStatus::Running,
            Self::Retrying { .. } | Self::Unresolved { .. } => StepStatus::FailedRetryable,
            Self::WaitingEvent { .. } => StepStatus::WaitingEvent,
            Self::WaitingApproval { .. } => StepStatus::WaitingApproval,
            Self::Ended { status } => *status,
        }
    }

    /// The intent of an earlier attempt with an unknown outcome. `None` for a leased step, whose worker may still
    /// report the outcome.
    pub fn open(&self) -> Option<&Intent> {
        match self {
            Self::Ready { authorized: open, .. }
            | Self::Retrying { open, .. }
            | Self::WaitingApproval { open, .. }
            | Self::Unresolved { open, .. } => open.as_ref(),
            Self::Running(_) | Self::WaitingEvent { .. } | Self::Ended { .. } => None,
        }
    }

    /// Whether this run started an effect whose outcome is unknown.
    pub fn leaves_unknown(&self) -> bool {
        self.open().is_some_and(|open| !open.foreign)
    }

    /// Whether an earlier attempt, of this run or of another one, may have performed the action of the step.
    pub fn may_have_happened(&self) -> bool {
        self.open().is_some()
    }

    /// The number of attempts at the action. One that may have happened counts.
    pub fn attempts(&self) -> u32 {
        self.attempt().max(u32::from(self.open().is_some()))
    }

    /// The approval that is unused, or that covers another attempt.
    pub fn approved(&self) -> Option<&ApprovalId> {
        match self {
            Self::Ready { approved, .. } | Self::Retrying { approved, .. } => approved.as_ref(),
            Self::Running(lease) => lease.approved.as_ref(),
            Self::Unresolved { .. }
            | Self::WaitingEvent { .. }
            | Self::WaitingApproval { .. }
            | Self::Ended { .. } => None,
        }
    }

    /// The approval that the step waits for or carries. A decision about the step needs it.
    pub fn approval(&self) -> Option<&ApprovalId> {
        match self {
            Self::WaitingApproval { approval, .. } => Some(approval),
            step_state => step_state.approved(),
        }
    }

    /// The number of failed attempts.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Ready { attempt, .. }
            | Self::Retrying { attempt, .. }
            | Self::WaitingApproval { attempt, .. }
            | Self::Unresolved { attempt, .. } => *attempt,
            Self::Running(lease) => lease.attempt,
            Self::WaitingEvent { .. } | Self::Ended { .. } => 0,
        }
    }
}

/// The kind of trigger of a run that undoes another run.
pub const UNDO_TRIGGER: &str = "undo";

impl RunRecord {
    /// The run that this run undoes, if it is an undo.
    pub fn undone_run(&self) -> Option<RunKey> {
        let Trigger { kind, reference, .. } = &self.trigger;
        let rest = reference.as_str().strip_prefix("undo:").filter(|_| kind == UNDO_TRIGGER)?;
        let run = RunId::new(rest.rsplit_once(':')?.0).ok()?;
        Some(RunKey { tenant: self.key.tenant.clone(), run })
    }

    /// Every user whose input shaped the run, including the `author` of its workflow.
    pub fn all_participants(&self, author: Option<&PersonId>) -> Participants {
        let mut all = Participants::default();
        all.add_trigger(&self.trigger);
        all = all.with_author(author);
        all.add_all(&self.participants);
        all
    }

    /// Whether the run is rolling back.
    pub fn is_rolling_back(&self) -> bool {
        self.rollback.is_some()
    }

    /// The trace of the run: the caller's, or one derived from the run's id.
    pub fn trace_context(&self) -> TraceContext {
        self.trace.unwrap_or_else(|| TraceContext::of_run(&self.key))
    }

    /// The duration of a run that has ended.
    pub fn duration(&self) -> Option<Millis> {
        self.completed_at.map(|at| at - self.created_at)
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}
