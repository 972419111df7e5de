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
    EventName, Fence, OpId, RunKey, SignalId, StepSeq, Version, WorkerId, WorkflowName, WorkspaceId,
};
use crate::key::IdempotencyKey;
use crate::machine::{RunStatus, StepStatus};
use crate::payload::{Fingerprint, Payload};
use crate::plan::{OnReject, OnTimeout};
use crate::time::{Millis, Timestamp};

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
    /// The kind: `cli`, `api`, `servicenow`, `github`, `slack`, `schedule`.
    pub kind: String,
    /// Which one: the idempotency key of the request.
    pub reference: IdempotencyKey,
    /// The digest of what came with it, to tell a repetition from a conflict.
    pub input: Digest,
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
    /// Asks a person.
    WaitingApproval {
        /// What they are asked.
        message: String,
        /// Until when.
        deadline: Timestamp,
        /// What a no means.
        on_reject: OnReject,
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
    pub const FRESH: Self = Self::Ready { attempt: 0, authorised: None };

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
            | Self::Unresolved { open, .. } => open.as_ref(),
            Self::Running(_)
            | Self::WaitingEvent { .. }
            | Self::WaitingApproval { .. }
            | Self::Over { .. } => None,
        }
    }

    /// How many attempts have failed.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Ready { attempt, .. }
            | Self::Retrying { attempt, .. }
            | Self::Unresolved { attempt, .. } => *attempt,
            Self::Running(lease) => lease.attempt,
            Self::WaitingEvent { .. } | Self::WaitingApproval { .. } | Self::Over { .. } => 0,
        }
    }
}

impl RunRecord {
    /// Whether the run is taking effects back.
    pub fn is_undoing(&self) -> bool {
        self.rollback.is_some()
    }

    /// How long the run took, once it is over.
    pub fn duration(&self) -> Option<Millis> {
        self.completed_at.map(|at| at - self.created_at)
    }
}
