//! The document in a bundle: the ledger's records of a finished run, with fingerprints instead of values.
//!
//! The document contains neither its build time nor its builder, so the same run always gives the same bytes.

mod approval;
mod compensation;
mod costs;
mod receipt;

pub use approval::{ApprovalSummary, SubjectSummary};
pub(crate) use compensation::compensation_log;
pub use compensation::{Compensation, EffectStatus};
pub use costs::{Costs, ModelCost, StepCost, ToolCost};
pub use receipt::{InverseSummary, ReceiptStatus, ReceiptSummary};

use domain::payload::Fingerprint;
use domain::plan::{Environment, Phase, Work};
use domain::record::{Effects, Trigger};
use domain::{
    BlastRadius, Digest, IdempotencyKey, Millis, ModelUsage, PersonId, PlannedStep, RunId, RunKey, RunStatus,
    StepId, StepRecord, StepSeq, StepStatus, TenantId, Timestamp, ToolName, WorkflowName, WorkspaceId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::log::LogProof;

/// The format and its version.
pub const FORMAT: &str = "countersign.bundle.v1";

/// The ledger's records of a finished run, without values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceBundle {
    pub format: String,
    pub run: BundleRun,
    /// The steps of the plan.
    pub steps: Vec<BundleStep>,
    /// The outcomes of the steps, in the order of the plan. A rollback follows the step that it rolls back.
    pub outcomes: Vec<StepOutcome>,
    pub chain: Vec<ChainEntry>,
    /// Sorted by key.
    pub receipts: Vec<ReceiptSummary>,
    /// Sorted by id.
    pub approvals: Vec<ApprovalSummary>,
    /// The effects of a run that did not succeed and their status, newest first.
    pub compensations: Vec<Compensation>,
    pub costs: Costs,
    pub log: LogProof,
}

/// A finished run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleRun {
    pub tenant: TenantId,
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub workflow: WorkflowName,
    pub version: u32,
    pub environment: Environment,
    /// The hash of the plan.
    pub plan: Digest,
    pub trigger: Trigger,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<PersonId>,
    pub status: RunStatus,
    /// The time of admission.
    pub created_at: Timestamp,
    pub completed_at: Timestamp,
    pub duration_ms: Millis,
    /// The number of take-overs and resumes.
    pub resumes: u32,
    pub effects: Effects,
    /// The number of events.
    pub events: u32,
    /// The hash of the last event.
    pub head: Digest,
}

/// A step of the plan, without its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleStep {
    pub id: StepId,
    pub kind: BundleStepKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    pub blast_radius: BlastRadius,
    pub critical: bool,
    pub phase: Phase,
    /// Whether the workflow defines a rollback.
    pub rollback: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BundleStepKind {
    Call,
    Wait,
    Gate,
}

/// The outcome of a step or of its rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOutcome {
    pub seq: StepSeq,
    /// Whether this is the outcome of the rollback.
    pub rollback: bool,
    pub status: StepStatus,
    /// The number of the event that records it.
    pub event: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Fingerprint>,
    /// The key of its effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<IdempotencyKey>,
    pub cost_microusd: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ModelUsage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainEntry {
    /// The hash covers its canonical bytes.
    pub event: Value,
    /// The hash of this event and all before it.
    pub hash: Digest,
}

impl BundleRun {
    pub fn key(&self) -> RunKey {
        RunKey { tenant: self.tenant.clone(), run: self.run.clone() }
    }
}

impl EvidenceBundle {
    pub fn step(&self, seq: StepSeq) -> Option<&BundleStep> {
        self.steps.get(seq.index())
    }

    pub fn receipt(&self, key: &IdempotencyKey) -> Option<&ReceiptSummary> {
        self.receipts.iter().find(|receipt| receipt.key == *key)
    }
}

impl From<&PlannedStep> for BundleStep {
    fn from(step: &PlannedStep) -> Self {
        let (kind, tool) = match &step.work {
            Work::Call(call) => (BundleStepKind::Call, Some(call.tool.clone())),
            Work::Wait { .. } => (BundleStepKind::Wait, None),
            Work::Gate { .. } => (BundleStepKind::Gate, None),
        };
        Self {
            id: step.id.clone(),
            kind,
            tool,
            blast_radius: step.blast_radius,
            critical: step.critical,
            phase: step.phase,
            rollback: step.rollback.is_some(),
        }
    }
}

impl From<&StepRecord> for StepOutcome {
    fn from(record: &StepRecord) -> Self {
        Self {
            seq: record.seq,
            rollback: record.rollback,
            status: record.status,
            event: record.event,
            output: record.fingerprint,
            receipt: record.receipt.clone(),
            cost_microusd: record.cost_microusd,
            usage: record.usage.clone(),
        }
    }
}
