//! The bundle as a document: what the ledger holds of a finished run, with fingerprints in place of values.
//!
//! Nothing here says when a bundle was built or by whom, so the same run gives the same bytes for ever.

mod approval;
mod compensation;
mod costs;
mod receipt;

pub use approval::{About, ApprovalSummary};
pub(crate) use compensation::log_of;
pub use compensation::{Compensation, EffectStatus};
pub use costs::{Costs, ModelCost, StepCost, ToolCost};
pub use receipt::{Inverse, ReceiptSummary, State};

use domain::payload::Fingerprint;
use domain::plan::{Environment, Phase, Work};
use domain::record::{Effects, Trigger};
use domain::{
    Blast, Digest, IdempotencyKey, Millis, PersonId, PlannedStep, RunId, RunKey, RunStatus, StepId,
    StepRecord, StepSeq, StepStatus, TenantId, Timestamp, ToolName, Usage, WorkflowName, WorkspaceId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::log::Log;

/// The name of the format, which a later one will not share.
pub const FORMAT: &str = "countersign.bundle.v1";

/// Everything the ledger holds of a finished run, without values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    /// The name of the format.
    pub format: String,
    /// The run.
    pub run: Run,
    /// What its plan says of each step.
    pub steps: Vec<Step>,
    /// How the steps ended, in the order of the plan; an undoing after what it undoes.
    pub outcomes: Vec<Outcome>,
    /// What happened, in its order.
    pub chain: Vec<Entry>,
    /// The effects, by key.
    pub receipts: Vec<ReceiptSummary>,
    /// The requests for approval, by id.
    pub approvals: Vec<ApprovalSummary>,
    /// What became of the effects of a run that did not succeed, newest first.
    pub compensations: Vec<Compensation>,
    /// What the run cost.
    pub costs: Costs,
    /// Where the run stands in the log of runs.
    pub log: Log,
}

/// A finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which one.
    pub run: RunId,
    /// The part of the tenant it belongs to.
    pub workspace: WorkspaceId,
    /// The workflow.
    pub workflow: WorkflowName,
    /// Its version.
    pub version: u32,
    /// Where it ran.
    pub environment: Environment,
    /// The plan, by hash.
    pub plan: Digest,
    /// What started it.
    pub trigger: Trigger,
    /// Who wrote the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PersonId>,
    /// How it ended.
    pub status: RunStatus,
    /// When it was admitted.
    pub created_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// How long it took.
    pub duration_ms: Millis,
    /// How often it was taken over or resumed.
    pub resumes: u32,
    /// Its effects, counted.
    pub effects: Effects,
    /// How many events there are.
    pub events: u32,
    /// The hash of the newest one.
    pub head: Digest,
}

/// What the plan says of a step; never what it is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name.
    pub id: StepId,
    /// What it is.
    pub kind: Kind,
    /// The tool, if it calls one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// How far a mistake would reach.
    pub blast: Blast,
    /// Whether it is critical.
    pub critical: bool,
    /// The part of the run it belongs to.
    pub phase: Phase,
    /// Whether the workflow says how it is taken back.
    pub rollback: bool,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Calls a tool.
    Call,
    /// Waits for an event.
    Wait,
    /// Asks a person.
    Gate,
}

/// How a step, or its undoing, ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Its place in the run.
    pub seq: StepSeq,
    /// Whether it is the undoing that ended.
    pub undo: bool,
    /// How.
    pub status: StepStatus,
    /// The number of the event that says so.
    pub event: u32,
    /// The fingerprint of what it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Fingerprint>,
    /// The key of the effect it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<IdempotencyKey>,
    /// What it cost, in millionths of a US dollar.
    pub cost_microusd: u64,
    /// What that was for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// An entry of the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What happened. Its canonical bytes are what is hashed.
    pub event: Value,
    /// The hash of it and all before it.
    pub hash: Digest,
}

impl Run {
    /// The run and whose it is.
    pub fn key(&self) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run: self.run.clone() }
    }
}

impl Bundle {
    /// The step at `seq`, if the plan goes that far.
    pub fn step(&self, seq: StepSeq) -> Option<&Step> {
        self.steps.get(seq.index())
    }

    /// The receipt under `key`.
    pub fn receipt(&self, key: &IdempotencyKey) -> Option<&ReceiptSummary> {
        self.receipts.iter().find(|receipt| receipt.key == *key)
    }
}

impl From<&PlannedStep> for Step {
    fn from(step: &PlannedStep) -> Self {
        let (kind, tool) = match &step.work {
            Work::Call(call) => (Kind::Call, Some(call.tool.clone())),
            Work::Wait { .. } => (Kind::Wait, None),
            Work::Gate { .. } => (Kind::Gate, None),
        };
        Self {
            id: step.id.clone(),
            kind,
            tool,
            blast: step.blast,
            critical: step.critical,
            phase: step.phase,
            rollback: step.rollback.is_some(),
        }
    }
}

impl From<&StepRecord> for Outcome {
    fn from(record: &StepRecord) -> Self {
        Self {
            seq: record.seq,
            undo: record.undo,
            status: record.status,
            event: record.event,
            output: record.fingerprint,
            receipt: record.receipt.clone(),
            cost_microusd: record.cost_microusd,
            usage: record.usage.clone(),
        }
    }
}
