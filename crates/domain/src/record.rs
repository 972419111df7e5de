//! What the ledger keeps of a run.
//!
//! A run is linear, so at most one of its steps is alive. The run's record holds the live state of that one
//! step; a step's own record is written once, when it ends. A claim is therefore one conditional write of
//! one small record, and nothing grows with the length of the run.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::effect::EffectClass;
use crate::failure::Failure;
use crate::id::{
    ApprovalId, EventName, Fence, OpId, PersonId, RunKey, SignalId, StepSeq, Version, WorkerId, WorkflowName,
    WorkspaceId,
};
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, StepStatus};
use crate::payload::{BlobRef, Fingerprint, Payload};
use crate::plan::{OnTimeout, Phase};
use crate::record_name::RecordName;
use crate::time::{Millis, Timestamp};
use crate::trace::TraceContext;

/// After this long without a sign of life somebody looks at the run.
pub const ORPHANED_AFTER: Millis = Millis::mins(5);

/// Events that came before their wait was open. More than this many is a sender gone wrong.
pub const EARLY_MAX: usize = 16;

/// The hot record of a run, under 1 KB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Which run, and whose.
    #[serde(flatten)]
    pub key: RunKey,
    /// The part of the tenant it belongs to.
    pub workspace: WorkspaceId,
    /// The workflow.
    pub workflow: WorkflowName,
    /// Its version.
    pub workflow_version: u32,
    /// The plan, by hash.
    pub plan: Digest,
    /// How many steps it has.
    pub steps: u16,
    /// What started it.
    pub trigger: Trigger,
    /// The story outside that it belongs to, if whoever started it told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// Where it stands.
    pub status: RunStatus,
    /// Grows with every write.
    pub version: Version,
    /// The last write.
    pub op: OpId,
    /// How many events there are; the next one has this number.
    pub events: u32,
    /// The hash of the newest event.
    pub head: Digest,
    /// The largest fence ever granted.
    pub fence: Fence,
    /// The current step.
    pub at: StepSeq,
    /// Its live state.
    pub live: Live,
    /// Somebody asked to stop the run while its step was held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Request>,
    /// Somebody asked to pause the run while its step was held, or it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Request>,
    /// What is being taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// Events that came early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub early: Vec<Early>,
    /// How often the run was taken over or resumed.
    pub resumes: u32,
    /// How many requests for approval there were; the next one has this number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub approvals: u32,
    /// The steps that this run acted in.
    #[serde(default)]
    pub acted: Acted,
    /// The phase whose first action a person has approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// How many effects were done, and how many of them taken back.
    pub effects: Effects,
    /// What the finished steps cost, in millionths of a US dollar.
    pub cost_microusd: u64,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When somebody should look at the run if nobody has. Every run that can still move has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
}

/// What started a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// The kind: `cli`, `api`, `console`, `servicenow`, `github`, `slack`, `schedule`.
    pub kind: String,
    /// Which one: the idempotency key of the request.
    pub reference: IdempotencyKey,
    /// The digest of what came with it, to tell a repetition from a conflict.
    pub input: Digest,
    /// The record outside that it is about, if whoever started it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordName>,
    /// The person who wanted it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<PersonId>,
}

/// A person's wish, kept until it can be honoured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Who wished it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// What is being taken back, and how the run ends afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// No step before this one is touched.
    pub floor: StepSeq,
    /// Why.
    pub reason: String,
    /// How the run ends when everything is taken back.
    #[serde(default)]
    pub ends: RollbackEnds,
}

/// How a run ends that has taken its effects back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollbackEnds {
    /// A person wanted it taken back.
    #[default]
    Canceled,
    /// A step failed.
    Failed,
}

/// An event that came before its wait was open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Early {
    /// Which event.
    pub event: EventName,
    /// Which delivery of it.
    pub signal: SignalId,
}

/// Effects of a run, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    /// Done, by this run.
    pub done: u32,
    /// Of those, taken back.
    pub undone: u32,
    /// Given up on by a person without anybody knowing whether they happened.
    pub unknown: u32,
}

/// A set of steps; a plan has at most 64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Acted(u64);

impl Acted {
    /// Adds a step.
    pub fn add(&mut self, seq: StepSeq) {
        self.0 |= 1_u64.checked_shl(u32::from(seq.0)).unwrap_or(0);
    }

    /// Whether the step is among them.
    pub fn has(self, seq: StepSeq) -> bool {
        self.0 & 1_u64.checked_shl(u32::from(seq.0)).unwrap_or(0) != 0
    }
}

// As a text: half of the numbers would be beyond what every JSON reader can hold.
impl From<Acted> for String {
    fn from(steps: Acted) -> Self {
        format!("{:x}", steps.0)
    }
}

impl TryFrom<String> for Acted {
    type Error = std::num::ParseIntError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        u64::from_str_radix(&text, 16).map(Self)
    }
}

/// The live state of the current step, or of its undoing while the run rolls back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Live {
    /// May be claimed.
    Ready {
        /// How many attempts failed.
        attempt: u32,
        /// The effect of an earlier attempt whose outcome is unknown, and which a person said may be done
        /// again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        authorised: Option<Intent>,
        /// What people have approved.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved: Option<ApprovalId>,
    },
    /// Held under a lease.
    Running(Lease),
    /// Due again at `not_before`.
    Retrying {
        /// How many attempts failed.
        attempt: u32,
        /// When the next one is due.
        not_before: Timestamp,
        /// Why the last one failed.
        failure: Failure,
        /// The effect that was intended and whose outcome is not known yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<Intent>,
        /// What people have approved, if that still covers another attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approved: Option<ApprovalId>,
    },
    /// Nobody knows whether the effect happened.
    Unresolved {
        /// How many attempts failed.
        attempt: u32,
        /// What is known.
        failure: Failure,
        /// The effect in question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<Intent>,
    },
    /// Waits for an event.
    WaitingEvent {
        /// Which one.
        event: EventName,
        /// Until when.
        deadline: Timestamp,
        /// What happens then.
        on_timeout: OnTimeout,
    },
    /// Asks people.
    WaitingApproval {
        /// Which request.
        approval: ApprovalId,
        /// How many attempts failed.
        #[serde(default)]
        attempt: u32,
        /// The effect of an earlier attempt whose outcome is unknown, and which is to be done again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        open: Option<Intent>,
        /// When they are reminded, or others are told; never later than `deadline`.
        nudge_at: Timestamp,
        /// Until when.
        deadline: Timestamp,
    },
    /// The run is over; this is how its last step stands.
    Over {
        /// How.
        status: StepStatus,
    },
}

/// A worker's hold on a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// Who holds it.
    pub owner: WorkerId,
    /// The fence it holds it under.
    pub fence: Fence,
    /// How many attempts failed before this one.
    pub attempt: u32,
    /// Since when.
    pub since: Timestamp,
    /// Until when, unless extended. Serves liveness alone.
    pub until: Timestamp,
    /// The write that granted it: whoever finds its own here holds the step, even if others have written
    /// to the record since.
    pub op: OpId,
    /// The effect that may be under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// What people have approved of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<ApprovalId>,
}

/// An effect that may be under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its key, under which the receipt is found.
    pub key: IdempotencyKey,
    /// The hash of the exact action.
    pub action: Digest,
    /// What is promised about being asked again.
    pub class: EffectClass,
    /// Another run began it, and has ended without knowing; this one has only asked a person about it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign_intent: bool,
}

/// A step's record, written once, when it ends; and once more when it is taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its place in the run.
    pub seq: StepSeq,
    /// Whether this is the record of its undoing.
    pub undo: bool,
    /// How it ended.
    pub status: StepStatus,
    /// The number of the event that says so.
    pub event: u32,
    /// The write that ended it.
    pub op: OpId,
    /// What it gave, if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    /// The fingerprint of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// The key of the effect it had, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<IdempotencyKey>,
    /// What it cost, in millionths of a US dollar.
    #[serde(default)]
    pub cost_microusd: u64,
    /// What that was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What a step used of somebody's metered service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Whose.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// How much went in.
    pub input_tokens: u64,
    /// How much came out.
    pub output_tokens: u64,
}

/// Where the evidence of a finished run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The bundle, by its content.
    pub bundle: BlobRef,
    /// The run's number in the log of runs.
    pub index: u64,
    /// When it was put together.
    pub sealed_at: Timestamp,
}

/// An event from outside that was delivered to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Which delivery.
    pub id: SignalId,
    /// Which event.
    pub event: EventName,
    /// What came with it.
    pub payload: Payload,
    /// The fingerprint of that.
    pub fingerprint: Fingerprint,
    /// When it came.
    pub at: Timestamp,
    /// Whether it is kept for a wait that is not open yet.
    pub kept: bool,
}

impl Live {
    /// A step that nobody has tried.
    pub const FRESH: Self = Self::Ready { attempt: 0, authorised: None, approved: None };

    /// The live state as a step's status.
    pub fn status(&self) -> StepStatus {
        match self {
            Self::Ready { .. } => StepStatus::Ready,
            Self::Running(_) => StepStatus::Running,
            Self::Retrying { .. } | Self::Unresolved { .. } => StepStatus::FailedRetryable,
            Self::WaitingEvent { .. } => StepStatus::WaitingEvent,
            Self::WaitingApproval { .. } => StepStatus::WaitingApproval,
            Self::Over { status } => *status,
        }
    }

    /// The effect that an earlier attempt intended and whose outcome nobody knows. Of a step that is held
    /// nothing can be said yet: its holder may still tell.
    pub fn open(&self) -> Option<&Intent> {
        match self {
            Self::Ready { authorised: open, .. }
            | Self::Retrying { open, .. }
            | Self::WaitingApproval { open, .. }
            | Self::Unresolved { open, .. } => open.as_ref(),
            Self::Running(_) | Self::WaitingEvent { .. } | Self::Over { .. } => None,
        }
    }

    /// Whether the run itself has begun an effect that nobody can account for.
    pub fn leaves_unknown(&self) -> bool {
        self.open().is_some_and(|open| !open.foreign_intent)
    }

    /// What people have approved and nobody has used yet, or may use for another attempt.
    pub fn approved(&self) -> Option<&ApprovalId> {
        match self {
            Self::Ready { approved, .. } | Self::Retrying { approved, .. } => approved.as_ref(),
            Self::Running(lease) => lease.approved.as_ref(),
            Self::Unresolved { .. }
            | Self::WaitingEvent { .. }
            | Self::WaitingApproval { .. }
            | Self::Over { .. } => None,
        }
    }

    /// The request for approval that the step waits for or carries: a decision about it needs that too.
    pub fn approval(&self) -> Option<&ApprovalId> {
        match self {
            Self::WaitingApproval { approval, .. } => Some(approval),
            live => live.approved(),
        }
    }

    /// How many attempts have failed.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Ready { attempt, .. }
            | Self::Retrying { attempt, .. }
            | Self::WaitingApproval { attempt, .. }
            | Self::Unresolved { attempt, .. } => *attempt,
            Self::Running(lease) => lease.attempt,
            Self::WaitingEvent { .. } | Self::Over { .. } => 0,
        }
    }
}

impl RunRecord {
    /// Whether the run is taking effects back.
    pub fn is_undoing(&self) -> bool {
        self.rollback.is_some()
    }

    /// The story that it belongs to: the one it was begun in, or its own.
    pub fn story(&self) -> TraceContext {
        self.trace.unwrap_or_else(|| TraceContext::of_run(&self.key))
    }

    /// How long the run took, once it is over.
    pub fn duration(&self) -> Option<Millis> {
        self.completed_at.map(|at| at - self.created_at)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
