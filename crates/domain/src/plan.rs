//! Plans: all steps of a run, fixed before the first one starts.
//!
//! A plan is immutable and named by its hash. The run's record contains the hash, so that later changes to the workflow
//! do not affect the run.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::concurrency::ConcurrencyRule;
use crate::cron::Cron;
use crate::digest::Digest;
use crate::effect::ActionOrigin;
use crate::id::{
    BlastRadius, ConnectionName, EventName, PersonId, StepId, StepSeq, ToolName, WorkflowName, WorkspaceId,
};
use crate::inbox::Source;
use crate::json;
use crate::retry_policy::RetryPolicy;
use crate::time::Millis;
use crate::verdict::ApprovalRequirement;

/// The maximum number of steps, so that a run stays readable. Split longer workflows.
pub const STEPS_MAX: usize = 64;

/// All steps of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The workflow.
    pub workflow: WorkflowName,
    /// The version of the workflow.
    pub version: u32,
    /// The environment: `dev`, `staging` or `prod`.
    pub environment: Environment,
    /// The workspace of its runs. Absent: each request may name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// The author, who may not approve runs of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PersonId>,
    /// Which actions need an approval although policy allows them.
    pub validation: Validation,
    /// The SLA and the expiry of approvals.
    pub approval_timing: ApprovalTiming,
    /// The confidence, in thousandths, from which an action of a step that is not critical, with a small blast radius
    /// outside production, needs no validation. Absent: every action does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approve: Option<u16>,
    /// The trigger; absent if runs are started by name only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<TriggeredBy>,
    /// At most one active run for each key; absent if runs are not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<ConcurrencyRule>,
    /// A sample input. Only forms for users use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Value>,
    /// The steps in order: at least one, at most [`STEPS_MAX`].
    pub steps: Vec<PlannedStep>,
}

/// The trigger of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggeredBy {
    /// The source.
    pub source: Source,
    /// The table of the record or the name of the event; any, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// An expression over the event that must be true; always, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The schedule, if the source is a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
}

impl TriggeredBy {
    /// Whether each event that matches one of the triggers certainly matches the other one too. Two different conditions
    /// may exclude each other, so they are not compared.
    pub fn is_ambiguous_with(&self, other: &Self) -> bool {
        let covers = |wide: &Self, narrow: &Self| {
            wide.when.is_none() && (wide.topic.is_none() || wide.topic == narrow.topic)
        };
        let same = self.topic == other.topic && self.when == other.when;
        self.source == other.source
            && self.source != Source::Schedule
            && (same || covers(self, other) || covers(other, self))
    }
}

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The cron expression.
    pub cron: Cron,
    /// The time zone, by its IANA name.
    pub zone: String,
}

/// The environment of a workflow or a connection. A stricter one is greater.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
    IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Environment {
    /// Development.
    Dev,
    /// Staging.
    Staging,
    /// Production. The default, so that an omitted field loosens nothing.
    #[default]
    Prod,
}

/// Which actions need an approval although policy allows them. Actions for which policy requires an approval always
/// need one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Validation {
    /// Every action.
    PerStep,
    /// The first action of each phase.
    PerPhase,
    /// The actions of critical steps, and with `auto_approve` all others that it does not cover.
    CriticalOnly,
    /// The last action; only if every step has a low blast radius.
    FinalOnly,
}

impl Validation {
    /// The default of an environment.
    pub fn default_in(environment: Environment) -> Self {
        match environment {
            Environment::Prod => Self::PerStep,
            Environment::Dev | Environment::Staging => Self::CriticalOnly,
        }
    }
}

/// The SLA and the expiry of approvals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalTiming {
    /// When an approval is overdue and escalated; the run keeps waiting.
    pub sla: Millis,
    /// When an approval expires and the step fails.
    pub expires_after: Millis,
}

impl ApprovalTiming {
    /// The default of an environment.
    pub fn default_in(environment: Environment) -> Self {
        let sla = match environment {
            Environment::Prod => Millis::mins(10),
            Environment::Dev | Environment::Staging => Millis::mins(30),
        };
        Self { sla, expires_after: Millis::hours(24) }
    }
}

/// The phase of a run that a step belongs to.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// Checks before the work.
    Prechecks,
    /// The work.
    #[default]
    Main,
    /// Checks after the work.
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
    /// The stable id.
    pub id: StepId,
    /// What the step does.
    pub work: Work,
    /// The number of attempts and the delays between them.
    pub retry: RetryPolicy,
    /// How far a mistake reaches.
    pub blast_radius: BlastRadius,
    /// Whether the step is critical.
    pub critical: bool,
    /// The phase.
    #[serde(default, skip_serializing_if = "Phase::is_main")]
    pub phase: Phase,
    /// What a rejection of its action does.
    #[serde(default, skip_serializing_if = "OnReject::is_fail")]
    pub on_reject: OnReject,
    /// The confidence in the proposed action, from 0 to 1: a number or an expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Value>,
    /// How the step is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Undo>,
    /// What the step's expressions read, so that nothing else is loaded.
    pub reads: InputRefs,
    /// What the expressions of its rollback read.
    #[serde(default, skip_serializing_if = "InputRefs::is_empty")]
    pub rollback_reads: InputRefs,
}

impl PlannedStep {
    /// The calls that the workflow declares: that of the step, and that of its rollback.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        let own = match &self.work {
            Work::Call(call) => Some(call),
            Work::Wait { .. } | Work::Gate { .. } => None,
        };
        let rollback = match &self.rollback {
            Some(Undo::Call(call)) => Some(call),
            Some(Undo::Auto) | None => None,
        };
        own.into_iter().chain(rollback)
    }
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Calls a tool. `with` may contain expressions.
    Call(Call),
    /// Waits for an external event. No worker claims it.
    Wait {
        /// The event.
        event: EventName,
        /// The maximum wait.
        timeout: Millis,
        /// What a timeout does.
        on_timeout: OnTimeout,
    },
    /// Asks for an approval. No worker claims it.
    Gate {
        /// The question; may contain expressions.
        message: String,
        /// When the approval expires.
        expires_after: Millis,
        /// What a rejection does.
        on_reject: OnReject,
        /// Who must approve.
        #[serde(default)]
        requirement: ApprovalRequirement,
    },
}

/// A tool and its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The tool.
    pub tool: ToolName,
    /// The connection; the tenant's only one of the tool's kind, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionName>,
    /// The arguments; texts may contain `${ … }`.
    pub with: Value,
}

impl Call {
    /// The digest of the call, before its expressions are evaluated.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/call/v1", self)
    }
}

/// How a step is undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// With the inverse call in the receipt.
    Auto,
    /// With another call.
    Call(Call),
}

/// What the timeout of a wait does.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnTimeout {
    /// The run fails.
    #[default]
    Fail,
    /// The step succeeds with `{"timed_out": true}`.
    Continue,
}

/// What a rejection does.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnReject {
    /// The run fails.
    #[default]
    Fail,
    /// The run pauses until an operator decides.
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
pub struct InputRefs {
    /// Whether they read the trigger.
    pub trigger: bool,
    /// The earlier steps whose output they read.
    pub steps: Vec<StepSeq>,
}

impl InputRefs {
    /// Adds what `other` reads.
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
    /// A step that does `work`, with defaults for everything else.
    pub fn new(id: StepId, work: Work) -> Self {
        Self {
            id,
            work,
            retry: RetryPolicy::default(),
            blast_radius: BlastRadius::default(),
            critical: false,
            phase: Phase::default(),
            on_reject: OnReject::default(),
            confidence: None,
            rollback: None,
            reads: InputRefs::default(),
            rollback_reads: InputRefs::default(),
        }
    }

    /// Where the call of the step comes from, or of its rollback if the run is `undoing`.
    pub fn origin(&self, undoing: bool) -> ActionOrigin {
        match (undoing, &self.rollback) {
            (true, Some(Undo::Auto)) => ActionOrigin::RecordedInverse,
            (true, Some(Undo::Call(_)) | None) => ActionOrigin::DeclaredRollback,
            (false, _) => ActionOrigin::Forward,
        }
    }
}

impl Plan {
    /// Version 1 of a plan, with defaults for everything else.
    pub fn new(workflow: WorkflowName, environment: Environment, steps: Vec<PlannedStep>) -> Self {
        Self {
            workflow,
            version: 1,
            environment,
            workspace: None,
            author: None,
            validation: Validation::default_in(environment),
            approval_timing: ApprovalTiming::default_in(environment),
            auto_approve: None,
            triggered_by: None,
            concurrency: None,
            sample: None,
            steps,
        }
    }

    /// The workspace of a run that is requested in `requested`; `None` if the workflow belongs to another one.
    pub fn workspace_of_run(&self, requested: Option<&WorkspaceId>) -> Option<WorkspaceId> {
        match (&self.workspace, requested) {
            (Some(own), Some(other)) if own != other => None,
            (own, requested) => Some(own.as_ref().or(requested).cloned().unwrap_or_default()),
        }
    }

    /// The digest of the plan, which is its name.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/plan/v1", self)
    }

    /// The step at `seq`.
    pub fn step(&self, seq: StepSeq) -> Option<&PlannedStep> {
        self.steps.get(seq.index())
    }

    /// The position of step `id`.
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
