//! The plan: every step of a run, fixed before the first one starts.
//!
//! A plan is immutable and named by its hash. A run's record carries that hash, so from admission on the
//! ledger alone decides what comes next, whatever definitions are in anybody's memory.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::id::{Blast, EventName, StepId, StepSeq, ToolName, WorkflowName};
use crate::json;
use crate::schedule::RetryPolicy;
use crate::time::Millis;

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
    /// The steps in their order; at least one, at most [`STEPS_MAX`].
    pub steps: Vec<PlannedStep>,
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

/// What a step's expressions read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reads {
    /// Whether they read the trigger.
    pub trigger: bool,
    /// The earlier steps whose output they read.
    pub steps: Vec<StepSeq>,
}

impl Reads {
    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        !self.trigger && self.steps.is_empty()
    }
}

impl Plan {
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

    /// The step to be undone next when everything at or above `below` already is: the newest one between
    /// `floor` and `below` that says how.
    pub fn undo_before(&self, below: StepSeq, floor: StepSeq) -> Option<StepSeq> {
        (floor.0..below.0)
            .rev()
            .map(StepSeq)
            .find(|seq| self.step(*seq).is_some_and(|s| s.rollback.is_some()))
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
