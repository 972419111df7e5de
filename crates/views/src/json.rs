//! A run as one JSON document, for programs.

use domain::plan::PlannedStep;
use domain::record::Effects;
use domain::view::step_status;
use domain::{
    BlobRef, Digest, Failure, Fence, IdempotencyKey, Live, Payload, RecordName, RunId, RunStatus, StepId,
    StepRecord, StepSeq, StepStatus, TenantId, WorkerId, WorkflowName,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::time::moment;

use super::canceled::canceled;
use super::history::{History, Try, TryEnd};
use super::text::{numbered, tool};
use super::{Seen, compensation, waiting};

/// Everything about a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Run)]
pub struct RunDocument {
    /// Which run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Whose.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// The workflow.
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    /// Its version.
    pub version: u32,
    /// The plan, by hash.
    #[schema(value_type = String)]
    pub plan: Digest,
    /// Where it stands.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The step it stands at, from 0.
    #[schema(value_type = u32)]
    pub at: StepSeq,
    /// When it was admitted.
    pub created_at: String,
    /// When it ended.
    pub completed_at: Option<String>,
    /// Who stopped it and why, if it was canceled.
    #[serde(default)]
    pub canceled: Option<CanceledDocument>,
    /// The key of the request that started it.
    #[schema(value_type = String)]
    pub key: IdempotencyKey,
    /// The record outside that it is about, if one was named.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub record: Option<RecordName>,
    /// Its steps, in their order.
    pub steps: Vec<StepDocument>,
    /// What the finished steps cost, in millionths of a US dollar.
    #[serde(default)]
    pub cost_microusd: u64,
    /// What each step that cost something cost, and what for.
    #[serde(default)]
    pub costs: Vec<CostDocument>,
    /// How many effects were done, taken back, and given up on.
    #[schema(value_type = Object)]
    pub effects: Effects,
    /// What became of each effect, where the run was stopped or is being taken back.
    pub compensation: Option<Vec<CompensationDocument>>,
    /// Why it does not move, and what ends that.
    pub waits: Option<WaitDocument>,
    /// Whether its chain holds.
    pub chain: ChainDocument,
}

/// Who stopped a run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Canceled)]
pub struct CanceledDocument {
    /// Who.
    pub by: String,
    /// In their words; empty, if they said nothing.
    pub reason: String,
    /// When they said so.
    pub at: String,
}

/// What a step, or taking it back, cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Cost)]
pub struct CostDocument {
    /// Which step.
    #[schema(value_type = String)]
    pub step: StepId,
    /// Whether it was taking the step back.
    pub undo: bool,
    /// In millionths of a US dollar.
    pub microusd: u64,
    /// What it was for, if a metered service said so.
    pub usage: Option<UsageDocument>,
}

/// What a step used of somebody's metered service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Usage)]
pub struct UsageDocument {
    /// Whose.
    pub provider: String,
    /// Which model.
    pub model: String,
    /// How much went in.
    pub input_tokens: u64,
    /// How much came out.
    pub output_tokens: u64,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Step)]
pub struct StepDocument {
    /// Its place in the run, from 0.
    #[schema(value_type = u32)]
    pub seq: StepSeq,
    /// Its name.
    #[schema(value_type = String)]
    pub id: StepId,
    /// What it calls.
    pub tool: String,
    /// Where it stands.
    #[schema(value_type = String)]
    pub status: StepStatus,
    /// How often it was tried.
    pub attempts: usize,
    /// Who tried it, and how that ended.
    pub tries: Vec<TryDocument>,
    /// The same for taking it back.
    pub undo_tries: Vec<TryDocument>,
    /// Who holds it now.
    pub lease: Option<LeaseDocument>,
    /// What went wrong last, unless it went right afterwards.
    #[schema(value_type = Option<Object>)]
    pub failure: Option<Failure>,
    /// The key of its effect, if it had one.
    #[schema(value_type = Option<String>)]
    pub effect: Option<IdempotencyKey>,
    /// What it gave; a large output as `{"blob": …}`.
    #[schema(value_type = Value)]
    #[serde(default)]
    pub output: Value,
}

impl StepDocument {
    /// Whether somebody works on it now.
    pub fn is_under_way(&self) -> bool {
        let newest = self.undo_tries.last().or(self.tries.last());
        newest.is_some_and(|newest| newest.end == end_name(TryEnd::UnderWay))
    }
}

/// One try at a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Try)]
pub struct TryDocument {
    /// Who made it.
    pub worker: String,
    /// `under_way`, `done`, `failed` or `silent`.
    pub end: String,
}

/// A worker's hold on a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseDocument {
    /// Who.
    #[schema(value_type = String)]
    pub owner: WorkerId,
    /// Under which fence.
    #[schema(value_type = u64)]
    pub fence: Fence,
    /// Since when.
    pub since: String,
    /// Until when, unless it is extended.
    pub until: String,
    /// The key of the effect that may be under way.
    #[schema(value_type = Option<String>)]
    pub intent: Option<IdempotencyKey>,
}

/// What became of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Compensation)]
pub struct CompensationDocument {
    /// Which step had it.
    #[schema(value_type = String)]
    pub step: StepId,
    /// Its key.
    #[schema(value_type = String)]
    pub key: IdempotencyKey,
    /// `rolled_back`, `reversible` or `stands`.
    pub status: String,
}

/// Why a run waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Wait)]
pub struct WaitDocument {
    /// Why, in sentences.
    pub why: String,
    /// What ends it.
    pub ends: Vec<WayDocument>,
}

/// One way to end a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Way)]
pub struct WayDocument {
    /// What happens then.
    pub what: String,
    /// What to type for it; none if it happens by itself.
    pub command: Option<String>,
}

/// How a run's chain stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Chain)]
pub struct ChainDocument {
    /// Whether every entry is as it was written.
    pub verified: bool,
    /// How many entries there are, if it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<usize>,
    /// The hash of the newest one, if it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub head: Option<Digest>,
    /// What is wrong, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Everything about the run.
pub fn run_json(seen: &Seen) -> Value {
    json!(run_document(seen))
}

/// Everything about the run, typed.
pub fn run_document(seen: &Seen) -> RunDocument {
    let record = &seen.view.record;
    RunDocument {
        run: record.key.run.clone(),
        tenant: record.key.tenant.clone(),
        workflow: record.workflow.clone(),
        version: record.workflow_version,
        plan: record.plan,
        status: record.status,
        at: record.at,
        created_at: moment(record.created_at),
        completed_at: record.completed_at.map(moment),
        canceled: canceled(seen),
        key: record.trigger.reference.clone(),
        record: record.trigger.record.clone(),
        steps: steps(seen),
        cost_microusd: record.cost_microusd,
        costs: costs(seen),
        effects: record.effects,
        compensation: compensation::document(&seen.view),
        waits: waits(seen),
        chain: chain(seen),
    }
}

fn costs(seen: &Seen) -> Vec<CostDocument> {
    let paid = seen.view.steps.iter().filter(|step| step.cost_microusd > 0 || step.usage.is_some());
    let named = paid.filter_map(|paid| Some((seen.view.plan().step(paid.seq)?.id.clone(), paid)));
    named
        .map(|(step, paid)| CostDocument {
            step,
            undo: paid.undo,
            microusd: paid.cost_microusd,
            usage: paid.usage.clone().map(|usage| UsageDocument {
                provider: usage.provider,
                model: usage.model,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
            }),
        })
        .collect()
}

fn steps(seen: &Seen) -> Vec<StepDocument> {
    let history = seen.history();
    numbered(seen.view.plan()).map(|(seq, planned)| step(seen, &history, seq, planned)).collect()
}

fn step(seen: &Seen, history: &History, seq: StepSeq, planned: &PlannedStep) -> StepDocument {
    let past = history.step(seq);
    let ended = seen.view.steps.iter().find(|record| record.seq == seq && !record.undo);
    StepDocument {
        seq,
        id: planned.id.clone(),
        tool: tool(&planned.work).to_owned(),
        status: step_status(&seen.view.record, &seen.view.steps, seq),
        attempts: past.tries.len(),
        tries: tries(&past.tries),
        undo_tries: tries(&past.undo_tries),
        lease: lease(seen, seq),
        failure: past.failure,
        effect: ended.and_then(|record| record.receipt.clone()),
        output: ended.map(output).unwrap_or_default(),
    }
}

fn tries(tries: &[Try]) -> Vec<TryDocument> {
    let document =
        |attempt: &Try| TryDocument { worker: attempt.worker.clone(), end: end_name(attempt.end).to_owned() };
    tries.iter().map(document).collect()
}

fn end_name(end: TryEnd) -> &'static str {
    match end {
        TryEnd::UnderWay => "under_way",
        TryEnd::Done => "done",
        TryEnd::Failed => "failed",
        TryEnd::Silent => "silent",
    }
}

fn lease(seen: &Seen, seq: StepSeq) -> Option<LeaseDocument> {
    match &seen.view.record.live {
        Live::Running(lease) if seq == seen.view.record.at => Some(LeaseDocument {
            owner: lease.owner.clone(),
            fence: lease.fence,
            since: moment(lease.since),
            until: moment(lease.until),
            intent: lease.intent.as_ref().map(|intent| intent.key.clone()),
        }),
        _ => None,
    }
}

/// What the step gave; a large output by pointer, as the ledger keeps it.
fn output(record: &StepRecord) -> Value {
    let pointer = |blob: &BlobRef| json!({ "blob": blob });
    match &record.output {
        Some(Payload::Inline(value)) => value.clone(),
        Some(Payload::Blob(blob)) => pointer(blob),
        None => Value::Null,
    }
}

fn waits(seen: &Seen) -> Option<WaitDocument> {
    let waiting = waiting(seen)?;
    let ends =
        waiting.ends.into_iter().map(|way| WayDocument { what: way.what, command: way.command }).collect();
    Some(WaitDocument { why: waiting.why, ends })
}

fn chain(seen: &Seen) -> ChainDocument {
    let events = seen.view.events.as_ref();
    ChainDocument {
        verified: events.is_ok(),
        events: events.ok().map(Vec::len),
        head: events.ok().map(|_| seen.view.record.head),
        fault: events.err().map(ToString::to_string),
    }
}
