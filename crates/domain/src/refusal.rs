//! Refusals: typed answers to commands that the rules do not allow.
//!
//! A refusal is a decision. An error means that no decision could be made.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

use crate::digest::Digest;
use crate::id::{ApprovalId, EventName, Fence, PersonId, RunKey, SignalId, StepId, WorkerId, WorkflowName};
use crate::machine::{IllegalRunMove, IllegalStepMove, RunStatus};
use crate::participant::ParticipantRole;
use crate::time::Timestamp;

/// The error codes used in the API and in logs.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The current state does not allow the command.
    RunInvalidTransition,
    /// The run has ended.
    RunTerminalState,
    /// The lease is lost: it expired and another worker claimed the step.
    LeaseLost,
    /// The run cannot continue from its current position.
    RunResumeFailed,
    /// The key was used before with other content.
    IdempotencyConflict,
    /// Another active run holds the concurrency key.
    ConcurrencyConflict,
    /// The concurrency key cannot be evaluated.
    ConcurrencyKeyInvalid,
    /// The request was accepted, and its run could not start.
    RunNotStarted,
    /// The applied version of the workflow is not older.
    WorkflowNotNewer,
    /// The author of the workflow is not a user of the tenant.
    AuthorUnknown,
    /// Another workflow is triggered by the same events.
    TriggerAmbiguous,
    /// The external system no longer remembers the idempotency key.
    IdempotencyExpired,
    /// The user may not vote on this approval.
    ApprovalRefused,
    /// Policy does not allow the action.
    PolicyDenied,
}

impl Code {
    /// Every code.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The code as text.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Why a user may not vote on an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotApprover {
    /// The user's input shaped the action.
    #[error("{}", participant_message(*.0))]
    Participant(ParticipantRole),
    /// The user is not in the tenant's directory. Under a second name, users could approve their own runs.
    #[error("the user is not in the tenant's `people`; add them with `tenant set`")]
    UnknownUser,
    /// The user is in none of the required groups.
    #[error("the user is not in any of the required groups")]
    NotInGroup,
    /// The user was not authenticated by the identity provider.
    #[error(
        "the policy requires approvers to sign in through the identity provider; open the approval in the console and \
         sign in there"
    )]
    Assurance,
}

fn participant_message(role: ParticipantRole) -> &'static str {
    match role {
        ParticipantRole::Requester => "the user who requested a run cannot approve its actions",
        ParticipantRole::Author => "the author of a workflow cannot approve its actions",
        ParticipantRole::Applier => "the user who applied a workflow cannot approve its actions",
        ParticipantRole::Signaler => "the user who sent an event to a run cannot approve its actions",
        ParticipantRole::Resumer => "the user who resumed a run cannot approve its actions",
        ParticipantRole::Canceler => "the user who canceled or rolled back a run cannot approve its rollback",
        ParticipantRole::Rejecter => "the user whose rejection started a rollback cannot approve it",
    }
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run has ended.
    #[error("run {run} has ended ({status}) and cannot change")]
    Terminal {
        /// The run.
        run: RunKey,
        /// Its final status.
        status: RunStatus,
    },
    /// The run state machine has no such transition.
    #[error(transparent)]
    Run(#[from] IllegalRunMove),
    /// The step state machine has no such transition.
    #[error(transparent)]
    Step(#[from] IllegalStepMove),
    /// Another worker claimed the step since.
    #[error("the lease is lost: fence {yours} was replaced by {held}")]
    StaleFence {
        /// The fence of the command.
        yours: Fence,
        /// The fence of the record.
        held: Fence,
    },
    /// A worker holds the step.
    #[error("worker {owner} holds a lease on the current step until {until}")]
    LeaseHeld {
        /// The worker.
        owner: WorkerId,
        /// When its lease expires, unless renewed.
        until: Timestamp,
    },
    /// The step is not due.
    #[error("the next attempt is due at {at}")]
    NotBefore {
        /// When it is due.
        at: Timestamp,
    },
    /// No current or later step of the run waits for this event.
    #[error(
        "no current or later step of the run waits for event {event}; `run show` lists the awaited events"
    )]
    NotAwaited {
        /// The event.
        event: EventName,
    },
    /// The run's signal buffer is full.
    #[error("the run already buffers {buffered} events; deliver this event when its step waits")]
    BufferFull {
        /// The number of buffered events.
        buffered: usize,
    },
    /// The id of the delivery was used for another event.
    #[error("delivery {signal} was received before with another event or payload; use a new id")]
    SignalConflict {
        /// The delivery.
        signal: SignalId,
    },
    /// The step has no open approval.
    #[error("step {step} is not waiting for an approval")]
    NoOpenApproval {
        /// The step.
        step: StepId,
    },
    /// The approval was decided before.
    #[error("step {step} was already decided: {decision}")]
    AlreadyDecided {
        /// The step.
        step: StepId,
        /// The decision, and who made it.
        decision: String,
    },
    /// There is no such approval.
    #[error("approval {approval} does not exist")]
    UnknownApproval {
        /// The approval.
        approval: ApprovalId,
    },
    /// The user may not vote.
    #[error("{person} may not vote on this approval: {why}")]
    NotApprover {
        /// The approval.
        approval: ApprovalId,
        /// The user.
        person: PersonId,
        /// Why not.
        why: NotApprover,
    },
    /// The approval has expired.
    #[error("approval {approval} expired at {at}")]
    ApprovalExpired {
        /// The approval.
        approval: ApprovalId,
        /// When.
        at: Timestamp,
    },
    /// The wait for the event has expired.
    #[error("the wait for event {event} expired at {at}")]
    WaitExpired {
        /// The event.
        event: EventName,
        /// When.
        at: Timestamp,
    },
    /// The vote names another subject than the approval.
    #[error("the subject of approval {approval} has changed; review it and vote again")]
    SubjectChanged {
        /// The approval.
        approval: ApprovalId,
    },
    /// The effect has no verdict.
    #[error("action {action} has no policy verdict, so it is not allowed")]
    NoVerdict {
        /// The hash of the action.
        action: Digest,
    },
    /// No finished step can be rolled back.
    #[error("no finished step of the run has a rollback")]
    NothingToRollBack,
    /// The run is not paused.
    #[error("run {run} is {status}; only a paused run can be resumed")]
    NotPaused {
        /// The run.
        run: RunKey,
        /// Its status.
        status: RunStatus,
    },
    /// The run is paused.
    #[error("run {run} is paused; use `run retry`, `run rollback` or `run cancel`")]
    Paused {
        /// The run.
        run: RunKey,
    },
    /// The idempotency key was used before with another input, record or workflow.
    #[error("the key of run {run} was used before with a different input, record or workflow")]
    KeyConflict {
        /// The run that the key names.
        run: RunKey,
    },
    /// Another active run holds the concurrency key.
    #[error("run {run} holds the concurrency key; workflow {workflow} allows one active run for each key")]
    ConcurrencyConflict {
        /// The run that holds the key.
        run: RunKey,
        /// The workflow.
        workflow: WorkflowName,
    },
    /// The request was accepted, and its run could not start.
    #[error("run {run} was not started: {why}")]
    NotStarted {
        /// The run.
        run: RunKey,
        /// Why not.
        why: String,
    },
    /// The concurrency key cannot be evaluated.
    #[error("`concurrency.key` of workflow {workflow}: {why}")]
    InvalidConcurrencyKey {
        /// The workflow.
        workflow: WorkflowName,
        /// Why not.
        why: String,
    },
    /// The applied version of the workflow is not older.
    #[error(
        "version {version} of workflow {workflow}, or a later one, is applied with other content; raise `version`"
    )]
    WorkflowNotNewer {
        /// The workflow.
        workflow: WorkflowName,
        /// The rejected version.
        version: u32,
    },
    /// The author is not in the tenant's directory, so that the exclusion of the author would exclude no user.
    #[error("author `{author}` of workflow {workflow} is not in the tenant's `people`")]
    UnknownAuthor {
        /// The workflow.
        workflow: WorkflowName,
        /// The author.
        author: PersonId,
    },
    /// Each event that matches one of the triggers matches both, and such an event starts no run.
    #[error(
        "the trigger of workflow {workflow} matches the events of workflow {other}, and an event that matches two \
         workflows starts neither"
    )]
    AmbiguousTrigger {
        /// The workflow.
        workflow: WorkflowName,
        /// The applied workflow.
        other: WorkflowName,
    },
    /// The command needs another state of the current step.
    #[error("the command requires {expected}")]
    WrongState {
        /// The needed state.
        expected: &'static str,
    },
    /// The record points past the end of its plan.
    #[error("the plan of run {run} has no step {seq}")]
    OffPlan {
        /// The run.
        run: RunKey,
        /// The position of the record.
        seq: u16,
    },
}

impl Refusal {
    /// The code of this refusal in the API and in logs.
    pub fn code(&self) -> Code {
        match self {
            Self::Terminal { .. } => Code::RunTerminalState,
            Self::StaleFence { .. } => Code::LeaseLost,
            Self::NotPaused { .. } | Self::OffPlan { .. } => Code::RunResumeFailed,
            Self::KeyConflict { .. } | Self::SignalConflict { .. } => Code::IdempotencyConflict,
            Self::ConcurrencyConflict { .. } => Code::ConcurrencyConflict,
            Self::InvalidConcurrencyKey { .. } => Code::ConcurrencyKeyInvalid,
            Self::NotStarted { .. } => Code::RunNotStarted,
            Self::WorkflowNotNewer { .. } => Code::WorkflowNotNewer,
            Self::UnknownAuthor { .. } => Code::AuthorUnknown,
            Self::AmbiguousTrigger { .. } => Code::TriggerAmbiguous,
            Self::NotApprover { .. } => Code::ApprovalRefused,
            Self::NoVerdict { .. } => Code::PolicyDenied,
            Self::Run(_)
            | Self::Step(_)
            | Self::LeaseHeld { .. }
            | Self::NotBefore { .. }
            | Self::NotAwaited { .. }
            | Self::BufferFull { .. }
            | Self::NoOpenApproval { .. }
            | Self::AlreadyDecided { .. }
            | Self::UnknownApproval { .. }
            | Self::ApprovalExpired { .. }
            | Self::WaitExpired { .. }
            | Self::SubjectChanged { .. }
            | Self::NothingToRollBack
            | Self::Paused { .. }
            | Self::WrongState { .. } => Code::RunInvalidTransition,
        }
    }
}
