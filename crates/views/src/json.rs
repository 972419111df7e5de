//! A run as a JSON document.

use domain::plan::PlannedStep;
use domain::record::Effects;
use domain::view::step_status;
use domain::{
    BlobRef, Digest, Failure, Fence, IdempotencyKey, Payload, RecordName, RunId, RunStatus, StepId,
    StepRecord, StepSeq, StepState, StepStatus, TenantId, WorkerId, WorkflowName, WorkspaceId,
};
use evidence::BundleComparison;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::time::rfc3339_millis;

use super::canceled::canceled;
use super::history::{AttemptStatus, History, StepAttempt};
use super::text::{numbered_steps, tool};
use super::{RunSnapshot, StepCharge, compensation, waiting};

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Run)]
pub struct RunDocument {
    #[schema(value_type = String)]
    pub run: RunId,
    #[schema(value_type = String)]
    pub tenant: TenantId,
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    pub version: u32,
    /// The workspace, which selects the connections of the run.
    #[serde(default)]
    #[schema(value_type = String)]
    pub workspace: WorkspaceId,
    /// The hash of the plan.
    #[schema(value_type = String)]
    pub plan: Digest,
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The index of the current step, from 0.
    #[schema(value_type = u32)]
    pub current_step: StepSeq,
    pub created_at: String,
    pub completed_at: Option<String>,
    /// Who canceled the run and why, if it was canceled.
    #[serde(default)]
    pub canceled: Option<CanceledDocument>,
    /// The idempotency key of the request that started the run.
    #[schema(value_type = String)]
    pub idempotency_key: IdempotencyKey,
    /// The external record, if the request named one.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub record: Option<RecordName>,
    /// The steps in the order of the workflow.
    pub steps: Vec<StepDocument>,
    /// The cost of the finished steps, in millionths of a US dollar.
    #[serde(default)]
    pub cost_microusd: u64,
    /// The cost of each step that has one.
    #[serde(default)]
    pub costs: Vec<CostDocument>,
    /// The number of effects that are done, rolled back, and of unknown outcome.
    #[schema(value_type = Object)]
    pub effects: Effects,
    /// The effects, if the run is canceled or rolls back.
    pub compensation: Option<Vec<CompensationDocument>>,
    /// Why the run waits, and what ends the wait; null if the run has finished.
    pub waiting: Option<WaitDocument>,
    pub chain: ChainDocument,
}

/// Who canceled a run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Canceled)]
pub struct CanceledDocument {
    pub by: String,
    /// The reason; empty if none was given.
    pub reason: String,
    pub at: String,
}

/// The cost of a step or of its rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Cost)]
pub struct CostDocument {
    #[schema(value_type = String)]
    pub step: StepId,
    /// Whether this is the cost of the rollback.
    pub rollback: bool,
    /// The cost in millionths of a US dollar.
    pub microusd: u64,
    /// The usage, if a metered service reported it.
    pub usage: Option<UsageDocument>,
}

/// The usage of a metered service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Usage)]
pub struct UsageDocument {
    pub provider: String,
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Step)]
pub struct StepDocument {
    /// The index of the step, from 0.
    #[schema(value_type = u32)]
    pub seq: StepSeq,
    #[schema(value_type = String)]
    pub id: StepId,
    pub tool: String,
    #[schema(value_type = String)]
    pub status: StepStatus,
    /// The attempts, oldest first.
    pub attempts: Vec<AttemptDocument>,
    /// The attempts to roll the step back, oldest first.
    pub rollback_attempts: Vec<AttemptDocument>,
    /// The lease of the worker that runs the step.
    pub lease: Option<LeaseDocument>,
    /// The last failure; null after a success.
    #[schema(value_type = Option<Object>)]
    pub failure: Option<Failure>,
    /// The idempotency key of the effect, if there is one.
    #[schema(value_type = Option<String>)]
    pub effect_key: Option<IdempotencyKey>,
    /// The output; a large output as `{"blob": …}`.
    #[schema(value_type = Value)]
    #[serde(default)]
    pub output: Value,
}

impl StepDocument {
    /// Whether a worker runs the step now.
    pub fn is_running(&self) -> bool {
        let newest = self.rollback_attempts.last().or(self.attempts.last());
        newest.is_some_and(|newest| newest.status == AttemptStatus::Running.to_string())
    }
}

/// One attempt at a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptDocument {
    pub worker: String,
    /// `running`, `succeeded`, `failed` or `lease_expired`.
    pub status: String,
}

/// The lease of a worker on a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseDocument {
    #[schema(value_type = String)]
    pub worker: WorkerId,
    #[schema(value_type = u64)]
    pub fence: Fence,
    pub acquired_at: String,
    /// The expiry, unless the worker renews the lease.
    pub expires_at: String,
    /// The idempotency key of the effect in progress.
    #[schema(value_type = Option<String>)]
    pub effect_key: Option<IdempotencyKey>,
}

/// The status of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Compensation)]
pub struct CompensationDocument {
    #[schema(value_type = String)]
    pub step: StepId,
    #[schema(value_type = String)]
    pub key: IdempotencyKey,
    /// `rolled_back`, `reversible` or `in_effect`.
    pub status: String,
}

/// Why a run waits, and what ends the wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Wait)]
pub struct WaitDocument {
    /// The reason, in sentences.
    pub reason: String,
    /// The actions and events that end the wait.
    pub next_actions: Vec<NextActionDocument>,
}

/// An action or an event that ends a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NextAction)]
pub struct NextActionDocument {
    /// The effect of the action.
    pub description: String,
    /// The command; null if it happens automatically.
    pub command: Option<String>,
}

/// The verification of the chain of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Chain)]
pub struct ChainDocument {
    /// Whether every event is unaltered, and an ended run has the content of its signed bundle.
    pub verified: bool,
    /// The number of events of a verified chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<usize>,
    /// The hash of the last event of a verified chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub head: Option<Digest>,
    /// The error, if the chain does not verify, or the run was changed after its evidence was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How an ended run compares with its signed bundle: `matches`, `unverified` (the content is the same, but the
    /// server has no key to verify the signature), `other_key` (the content is the same, but the bundle names another key
    /// than the server's) or `altered`. Missing if there is no bundle, or it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
}

pub fn run_json(snapshot: &RunSnapshot) -> Value {
    json!(run_document(snapshot))
}

pub fn run_document(snapshot: &RunSnapshot) -> RunDocument {
    let record = &snapshot.view.record;
    RunDocument {
        run: record.key.run.clone(),
        tenant: record.key.tenant.clone(),
        workflow: record.workflow.clone(),
        version: record.workflow_version,
        workspace: record.workspace.clone(),
        plan: record.plan,
        status: record.status,
        current_step: record.at,
        created_at: rfc3339_millis(record.created_at),
        completed_at: record.completed_at.map(rfc3339_millis),
        canceled: canceled(snapshot),
        idempotency_key: record.trigger.reference.clone(),
        record: record.trigger.record.clone(),
        steps: steps(snapshot),
        cost_microusd: record.cost_microusd,
        costs: costs(snapshot),
        effects: record.effects,
        compensation: compensation::document(&snapshot.view),
        waiting: wait(snapshot),
        chain: chain(snapshot),
    }
}

fn costs(snapshot: &RunSnapshot) -> Vec<CostDocument> {
    let named = |cost: StepCharge<'_>| {
        Some(CostDocument {
            step: snapshot.view.plan().step(cost.seq)?.id.clone(),
            rollback: cost.rollback,
            microusd: cost.microusd,
            usage: cost.usage.cloned().map(|usage| UsageDocument {
                provider: usage.provider,
                model: usage.model,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
            }),
        })
    };
    snapshot.charges().into_iter().filter_map(named).collect()
}

fn steps(snapshot: &RunSnapshot) -> Vec<StepDocument> {
    let history = snapshot.history();
    numbered_steps(snapshot.view.plan())
        .map(|(seq, planned)| step(snapshot, &history, seq, planned))
        .collect()
}

fn step(snapshot: &RunSnapshot, history: &History, seq: StepSeq, planned: &PlannedStep) -> StepDocument {
    let past = history.step(seq);
    let ended = snapshot.view.steps.iter().find(|record| record.seq == seq && !record.rollback);
    StepDocument {
        seq,
        id: planned.id.clone(),
        tool: tool(&planned.work).to_owned(),
        status: step_status(&snapshot.view.record, &snapshot.view.steps, seq),
        attempts: attempts(&past.attempts),
        rollback_attempts: attempts(&past.rollback_attempts),
        lease: lease(snapshot, seq),
        failure: past.failure,
        effect_key: ended.and_then(|record| record.receipt.clone()),
        output: ended.map(output).unwrap_or_default(),
    }
}

fn attempts(attempts: &[StepAttempt]) -> Vec<AttemptDocument> {
    let document = |attempt: &StepAttempt| AttemptDocument {
        worker: attempt.worker.clone(),
        status: attempt.status.to_string(),
    };
    attempts.iter().map(document).collect()
}

fn lease(snapshot: &RunSnapshot, seq: StepSeq) -> Option<LeaseDocument> {
    match &snapshot.view.record.step_state {
        StepState::Running(lease) if seq == snapshot.view.record.at => Some(LeaseDocument {
            worker: lease.owner.clone(),
            fence: lease.fence,
            acquired_at: rfc3339_millis(lease.since),
            expires_at: rfc3339_millis(lease.until),
            effect_key: lease.intent.as_ref().map(|intent| intent.key.clone()),
        }),
        _ => None,
    }
}

/// The output of the step; a large output by reference, as the ledger stores it.
fn output(record: &StepRecord) -> Value {
    let pointer = |blob: &BlobRef| json!({ "blob": blob });
    match &record.output {
        Some(Payload::Inline(value)) => value.clone(),
        Some(Payload::Blob(blob)) => pointer(blob),
        None => Value::Null,
    }
}

fn wait(snapshot: &RunSnapshot) -> Option<WaitDocument> {
    let waiting = waiting(snapshot)?;
    let next_actions = waiting
        .next_actions
        .into_iter()
        .map(|action| NextActionDocument { description: action.description, command: action.command })
        .collect();
    Some(WaitDocument { reason: waiting.reason, next_actions })
}

/// The bundle names another key than the configured one.
pub(crate) const OTHER_KEY: &str = "other_key";

fn chain(snapshot: &RunSnapshot) -> ChainDocument {
    let events = snapshot.view.events.as_ref();
    let altered = snapshot.altered();
    let altered_error = |what| {
        format!("the run was changed after its evidence was signed: {what} differs from the signed bundle")
    };
    let other_key = || {
        let why = "the bundle names another key than the configured ones; if the key was replaced, configure the public keys \
                   that `countersign bundle replace-key` has written";
        snapshot.has_other_signer().then(|| why.to_owned())
    };
    let evidence = snapshot.comparison.map(|comparison| match comparison {
        BundleComparison::Matches => "matches",
        BundleComparison::Unverified => "unverified",
        BundleComparison::OtherKey => OTHER_KEY,
        BundleComparison::Altered { .. } => "altered",
    });
    ChainDocument {
        verified: events.is_ok() && altered.is_none() && !snapshot.has_other_signer(),
        events: events.ok().map(Vec::len),
        head: events.ok().map(|_| snapshot.view.record.head),
        error: events
            .err()
            .map(ToString::to_string)
            .or_else(|| altered.map(altered_error))
            .or_else(other_key),
        evidence: evidence.map(str::to_owned),
    }
}
