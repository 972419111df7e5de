//! "No" as a typed answer.
//!
//! A refusal is what the rules say, kept apart from failure: errors are for what we could not find out.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{ApprovalId, EventName, Fence, PersonId, RunKey, SignalId, StepId, WorkerId, WorkflowName};
use crate::machine::{IllegalRunMove, IllegalStepMove, RunStatus};
use crate::time::Timestamp;

/// The codes that stand on the API and in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The machine has no such row.
    RunInvalidTransition,
    /// The run is over.
    RunTerminalState,
    /// The holder of the run's step went silent, or a silent holder came back too late.
    RunOrphaned,
    /// The run could not be taken up where it stood.
    RunResumeFailed,
    /// The same key came with another payload, or names what another run is doing.
    IdempotencyConflict,
    /// Another run is about the same ticket.
    TicketTaken,
    /// Nobody can say which ticket a run would be about.
    TicketUnknown,
    /// A request was kept, and could not start its run.
    RunNotStarted,
    /// Another version of the workflow is in use, as new or newer.
    WorkflowNotNewer,
    /// The other side no longer remembers the key.
    IdempotencyExpired,
    /// Whoever answered may not.
    ApprovalRefused,
    /// Policy says no.
    PolicyDenied,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 12] = [
        Self::RunInvalidTransition,
        Self::RunTerminalState,
        Self::RunOrphaned,
        Self::RunResumeFailed,
        Self::IdempotencyConflict,
        Self::TicketTaken,
        Self::TicketUnknown,
        Self::RunNotStarted,
        Self::WorkflowNotNewer,
        Self::IdempotencyExpired,
        Self::ApprovalRefused,
        Self::PolicyDenied,
    ];

    /// The code as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunInvalidTransition => "RUN_INVALID_TRANSITION",
            Self::RunTerminalState => "RUN_TERMINAL_STATE",
            Self::RunOrphaned => "RUN_ORPHANED",
            Self::RunResumeFailed => "RUN_RESUME_FAILED",
            Self::IdempotencyConflict => "IDEMPOTENCY_CONFLICT",
            Self::TicketTaken => "TICKET_TAKEN",
            Self::TicketUnknown => "TICKET_UNKNOWN",
            Self::RunNotStarted => "RUN_NOT_STARTED",
            Self::WorkflowNotNewer => "WORKFLOW_NOT_NEWER",
            Self::IdempotencyExpired => "IDEMPOTENCY_EXPIRED",
            Self::ApprovalRefused => "APPROVAL_REFUSED",
            Self::PolicyDenied => "POLICY_DENIED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why somebody may not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotApprover {
    /// They asked for the run.
    #[error("whoever asked for the run does not approve it")]
    Requester,
    /// They wrote the workflow.
    #[error("whoever wrote the workflow does not approve it")]
    Author,
    /// The tenant's directory does not know them: whoever goes by a second name could approve their own run.
    #[error("they are not among the people that the tenant has settled; `tenant set` adds them")]
    Stranger,
    /// They belong to none of the groups that are asked.
    #[error("they belong to none of the groups that are asked")]
    NotInGroup,
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run is over.
    #[error("run {run} is {status}; nothing can change it any more")]
    Terminal {
        /// Which run.
        run: RunKey,
        /// How it ended.
        status: RunStatus,
    },
    /// The run machine has no such row.
    #[error(transparent)]
    Run(#[from] IllegalRunMove),
    /// The step machine has no such row.
    #[error(transparent)]
    Step(#[from] IllegalStepMove),
    /// Somebody else has claimed the step since.
    #[error("the lease is lost: fence {yours} was replaced by {held}")]
    StaleFence {
        /// The fence that came with the command.
        yours: Fence,
        /// The fence on the record.
        held: Fence,
    },
    /// Somebody holds the step.
    #[error("the current step is held by {owner} until {until}")]
    Held {
        /// Who.
        owner: WorkerId,
        /// Until when, unless they extend it.
        until: Timestamp,
    },
    /// The step is not due.
    #[error("the next attempt is due at {at}")]
    NotBefore {
        /// When it is.
        at: Timestamp,
    },
    /// No step of the run waits for this event.
    #[error("no step of the run still waits for the event {event}; `run show` lists what it waits for")]
    NotAwaited {
        /// Which event.
        event: EventName,
    },
    /// Too many events came early.
    #[error("the run already keeps {kept} early events; deliver this one when its step waits")]
    TooManyEarly {
        /// How many it keeps.
        kept: usize,
    },
    /// The delivery's id stands for something else.
    #[error("delivery {signal} came before, with another event or another payload")]
    SignalConflict {
        /// Which delivery.
        signal: SignalId,
    },
    /// The step asks nobody.
    #[error("step {step} is not waiting for an approval")]
    NotAsked {
        /// Which step.
        step: StepId,
    },
    /// Somebody was faster.
    #[error("step {step} was already decided: {decision}")]
    AlreadyDecided {
        /// Which step.
        step: StepId,
        /// What was decided, by whom.
        decision: String,
    },
    /// The request for approval is not there.
    #[error("there is no request for approval {approval}")]
    UnknownApproval {
        /// Which one.
        approval: ApprovalId,
    },
    /// Whoever answered may not.
    #[error("{person} may not answer this: {why}")]
    NotApprover {
        /// Which request.
        approval: ApprovalId,
        /// Who.
        person: PersonId,
        /// Why not.
        why: NotApprover,
    },
    /// The question has lapsed.
    #[error("approval {approval} lapsed at {at}; nobody can answer it any more")]
    Lapsed {
        /// Which request.
        approval: ApprovalId,
        /// When.
        at: Timestamp,
    },
    /// The answer is to something else than what is asked.
    #[error("what approval {approval} asks about is not what was answered; look at it again")]
    OtherSubject {
        /// Which request.
        approval: ApprovalId,
    },
    /// An effect that nobody has judged.
    #[error("{action} has not been judged by any policy, and so may not happen")]
    Unjudged {
        /// What it is.
        action: Digest,
    },
    /// There is nothing to take back.
    #[error("no finished step of the run says how it is rolled back")]
    NothingToRollBack,
    /// The run is not paused, or not in a way this command ends.
    #[error("run {run} is {status}; only a paused run is resumed")]
    NotPaused {
        /// Which run.
        run: RunKey,
        /// Where it stands.
        status: RunStatus,
    },
    /// The run pauses already.
    #[error("run {run} is paused; `run retry`, `run rollback` or `run cancel` ends that")]
    Paused {
        /// Which run.
        run: RunKey,
    },
    /// The same key with another payload, about another record, or for another workflow.
    #[error("the key of run {run} was used before with a different input or record, or for another workflow")]
    KeyConflict {
        /// The run that the key names.
        run: RunKey,
    },
    /// Another run has the ticket.
    #[error("run {run} is about the same ticket and not over; workflow {workflow} has one at a time")]
    TicketTaken {
        /// The run that has it.
        run: RunKey,
        /// The workflow.
        workflow: WorkflowName,
    },
    /// The request was kept, and could not start its run.
    #[error("run {run} was not started: {why}")]
    NotStarted {
        /// The run that it would have started.
        run: RunKey,
        /// Why not.
        why: String,
    },
    /// Nobody can say which ticket the run would be about.
    #[error("`ticket` of workflow {workflow}: {why}")]
    NoTicket {
        /// The workflow.
        workflow: WorkflowName,
        /// Why not.
        why: String,
    },
    /// A workflow that is not newer than the one in use.
    #[error(
        "version {version} of workflow {workflow}, or a later one, is in use with other content; raise `version`"
    )]
    NotNewer {
        /// Which workflow.
        workflow: WorkflowName,
        /// The version that was to be put to use.
        version: u32,
    },
    /// The current step is of another kind.
    #[error("the current step is not {expected}")]
    WrongWork {
        /// What the command is for.
        expected: &'static str,
    },
    /// The record and the plan do not fit each other.
    #[error("the plan of run {run} has no step {seq}")]
    OffPlan {
        /// Which run.
        run: RunKey,
        /// Where its pointer stands.
        seq: u16,
    },
}

impl Refusal {
    /// The code that stands for this refusal on the API and in logs.
    pub fn code(&self) -> Code {
        match self {
            Self::Terminal { .. } => Code::RunTerminalState,
            Self::StaleFence { .. } => Code::RunOrphaned,
            Self::NotPaused { .. } | Self::OffPlan { .. } => Code::RunResumeFailed,
            Self::KeyConflict { .. } | Self::SignalConflict { .. } => Code::IdempotencyConflict,
            Self::TicketTaken { .. } => Code::TicketTaken,
            Self::NoTicket { .. } => Code::TicketUnknown,
            Self::NotStarted { .. } => Code::RunNotStarted,
            Self::NotNewer { .. } => Code::WorkflowNotNewer,
            Self::NotApprover { .. } => Code::ApprovalRefused,
            Self::Unjudged { .. } => Code::PolicyDenied,
            Self::Run(_)
            | Self::Step(_)
            | Self::Held { .. }
            | Self::NotBefore { .. }
            | Self::NotAwaited { .. }
            | Self::TooManyEarly { .. }
            | Self::NotAsked { .. }
            | Self::AlreadyDecided { .. }
            | Self::UnknownApproval { .. }
            | Self::Lapsed { .. }
            | Self::OtherSubject { .. }
            | Self::NothingToRollBack
            | Self::Paused { .. }
            | Self::WrongWork { .. } => Code::RunInvalidTransition,
        }
    }
}
