//! The plan: every step of a run, fixed before the first one starts.
//!
//! A plan is immutable and named by its hash. A run's record carries that hash, so from admission on the
//! ledger alone decides what comes next, whatever definitions are in anybody's memory.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cron::Cron;
use crate::digest::Digest;
use crate::id::{Blast, EventName, PersonId, StepId, StepSeq, ToolName, WorkflowName};
use crate::inbox::Source;
use crate::json;
use crate::schedule::RetryPolicy;
use crate::ticket::TicketRule;
use crate::time::Millis;
use crate::verdict::Demand;

/// A run is a list that a person reads; what needs more steps is two workflows.
pub const STEPS_MAX: usize = 64;

/// Every step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The workflow it was made from.
    pub workflow: WorkflowName,
    /// Its version.
    pub version: u32,
    /// Where it runs: `dev`, `staging` or `prod`.
    pub environment: Environment,
    /// Who wrote it, and therefore does not approve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PersonId>,
    /// Which of the actions that policy allows a person sees all the same.
    pub validation: Validation,
    /// How long people have to answer.
    pub patience: Patience,
    /// In thousandths: an action whose proposer is at least so sure need not be seen by a person where
    /// nothing serious can happen. Absent: nobody is sure enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approve: Option<u16>,
    /// What starts runs of it by itself; absent, if only people and programs do by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<TriggeredBy>,
    /// Which ticket its runs are about, of which each has one run at a time; absent, if they are about none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketRule>,
    /// An input to try it with. Nothing but a form that somebody looks at takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Value>,
    /// The steps in their order; at least one, at most [`STEPS_MAX`].
    pub steps: Vec<PlannedStep>,
}

/// What starts runs of a workflow by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggeredBy {
    /// Where it comes from.
    pub source: Source,
    /// What it is about: the table of a record, the name of an event. Anything, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// An expression over what came, as it is written, that must be true. Nothing more is asked, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// When it comes round, if it is a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

/// When runs of a workflow start by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// At which minutes of the calendar.
    pub cron: Cron,
    /// Whose clocks count: a name of the IANA database.
    pub zone: String,
}

/// Where a workflow runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// Nothing here matters to a customer.
    Dev,
    /// Nearly production.
    Staging,
    /// The real thing; the default, because a forgotten line must not loosen anything.
    #[default]
    Prod,
}

/// Which of the actions that policy allows a person sees all the same. What policy hands to people they
/// always see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// Every one.
    PerStep,
    /// The first of each phase.
    PerPhase,
    /// Those of critical steps.
    CriticalOnly,
    /// The last one; only where no step reaches far.
    FinalOnly,
}

impl Validation {
    /// What a workflow that does not say gets.
    pub fn default_in(environment: Environment) -> Self {
        match environment {
            Environment::Prod => Self::PerStep,
            Environment::Dev | Environment::Staging => Self::CriticalOnly,
        }
    }
}

/// How long people have to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patience {
    /// After this an answer is overdue: others are told, and the run keeps waiting.
    pub sla: Millis,
    /// After this the question lapses, and the step fails.
    pub expires_after: Millis,
}

impl Patience {
    /// What a workflow that does not say gets.
    pub fn default_in(environment: Environment) -> Self {
        let sla = match environment {
            Environment::Prod => Millis::mins(10),
            Environment::Dev | Environment::Staging => Millis::mins(30),
        };
        Self { sla, expires_after: Millis::hours(24) }
    }
}

/// The part of a run that a step belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Looking before acting.
    Prechecks,
    /// Acting.
    #[default]
    Main,
    /// Looking afterwards.
    Postchecks,
}

impl Phase {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_main(&self) -> bool {
        *self == Self::Main
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// Its stable name.
    pub id: StepId,
    /// What it does.
    pub work: Work,
    /// How often it is tried, and how far apart.
    pub retry: RetryPolicy,
    /// How far a mistake would reach.
    pub blast: Blast,
    /// Whether it is critical.
    pub critical: bool,
    /// The part of the run it belongs to.
    #[serde(default, skip_serializing_if = "Phase::is_main")]
    pub phase: Phase,
    /// What a rejection of its action means.
    #[serde(default, skip_serializing_if = "OnReject::is_fail")]
    pub on_reject: OnReject,
    /// How sure whoever proposed the action is, between 0 and 1: a number, or an expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Value>,
    /// How it is taken back, if the workflow says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Undo>,
    /// What its expressions read, so that nothing else need be loaded.
    pub reads: Reads,
    /// What the expressions of its rollback read.
    #[serde(default, skip_serializing_if = "Reads::is_empty")]
    pub rollback_reads: Reads,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Calls a tool; `with` may hold expressions.
    Call(Call),
    /// Waits for an event from outside; opened and closed by the runtime, never executed.
    Wait {
        /// Which event.
        event: EventName,
        /// For how long.
        timeout: Millis,
        /// What happens then.
        on_timeout: OnTimeout,
    },
    /// Asks a person; opened by the runtime, closed by a person, never executed.
    Gate {
        /// What they are asked; may hold expressions.
        message: String,
        /// How long the question stands.
        expires_after: Millis,
        /// What a no means.
        on_reject: OnReject,
        /// Who is asked.
        #[serde(default)]
        demand: Demand,
    },
}

/// A tool and what it is called with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Which tool.
    pub tool: ToolName,
    /// Its fields; texts may hold `${ … }`.
    pub with: Value,
}

/// How a step is taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// By the inverse that the receipt carries.
    Auto,
    /// By another call.
    Call(Call),
}

/// What happens when a wait's time is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeout {
    /// The run fails.
    #[default]
    Fail,
    /// The step succeeds with `{"timed_out": true}`.
    Continue,
}

/// What a rejection means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnReject {
    /// The run fails.
    #[default]
    Fail,
    /// The run pauses until an operator says what to do.
    Pause,
}

impl OnReject {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_fail(&self) -> bool {
        *self == Self::Fail
    }
}

/// What a step's expressions read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Whether they read the trigger.
    pub trigger: bool,
    /// The earlier steps whose output they read.
    pub steps: Vec<StepSeq>,
}

impl Reads {
    /// Reads what `other` reads, too.
    pub fn add(&mut self, other: &Self) {
        self.trigger |= other.trigger;
        self.steps.extend(other.steps.iter().copied());
        self.steps.sort_unstable();
        self.steps.dedup();
    }

    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        !self.trigger && self.steps.is_empty()
    }
}

impl PlannedStep {
    /// A step that does `work`, and is otherwise as a file that says no more would have it.
    pub fn new(id: StepId, work: Work) -> Self {
        Self {
            id,
            work,
            retry: RetryPolicy::default(),
            blast: Blast::default(),
            critical: false,
            phase: Phase::default(),
            on_reject: OnReject::default(),
            confidence: None,
            rollback: None,
            reads: Reads::default(),
            rollback_reads: Reads::default(),
        }
    }
}

impl Plan {
    /// The first version of a plan, as a file that says no more would have it.
    pub fn new(workflow: WorkflowName, environment: Environment, steps: Vec<PlannedStep>) -> Self {
        Self {
            workflow,
            version: 1,
            environment,
            author: None,
            validation: Validation::default_in(environment),
            patience: Patience::default_in(environment),
            auto_approve: None,
            triggered_by: None,
            ticket: None,
            sample: None,
            steps,
        }
    }

    /// The plan's name: a digest of all of it.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/plan/v1", self)
    }

    /// The step at `seq`, if the plan goes that far.
    pub fn step(&self, seq: StepSeq) -> Option<&PlannedStep> {
        self.steps.get(seq.index())
    }

    /// The place of the step called `id`.
    pub fn seq_of(&self, id: &StepId) -> Option<StepSeq> {
        let index = self.steps.iter().position(|step| step.id == *id)?;
        u16::try_from(index).ok().map(StepSeq)
    }

    /// Whether a step at or after `from` waits for `event`.
    pub fn awaits(&self, event: &EventName, from: StepSeq) -> bool {
        self.steps.iter().skip(from.index()).any(|step| step.work.awaits(event))
    }
}

impl Work {
    fn awaits(&self, name: &EventName) -> bool {
        matches!(self, Self::Wait { event, .. } if event == name)
    }
}
