//! Runs: starting them, listing them, saying how they go on.

use domain::{
    EventName, RecordName, RunId, RunRecord, RunStatus, SignalId, StepId, StepSeq, ToolName, WorkflowName,
};
use engine::UndoEffect as EngineUndoEffect;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use views::EventDocument;
use views::time::moment;

/// A wish to start a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// A workflow in use.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub workflow: WorkflowName,
    /// What comes with it; an empty object, if absent.
    #[serde(default = "nothing")]
    #[schema(value_type = Value)]
    pub input: Value,
    /// The record outside that it is about, such as `servicenow:incident:9d38` or `github:acme/shop#7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        value_type = Option<String>,
        pattern = "^[A-Za-z0-9._/#@+=-]+:[A-Za-z0-9._:/#@+=-]+$",
        max_length = 256
    )]
    pub record: Option<RecordName>,
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

/// A run that was started, now or by the same request before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedRun {
    /// Which run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Whether it is another request's run, about the same ticket: no other was started.
    #[serde(default)]
    pub joined: bool,
    /// The run about the same ticket that must be over before this one begins; until then it cannot be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub behind: Option<RunId>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunLine {
    /// Which run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// The workflow.
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    /// Its version.
    pub version: u32,
    /// Where it stands.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// What started it: `api`, `cli`, `servicenow` and so on.
    pub trigger: String,
    /// The record outside that it is about, if one was named.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub record: Option<RecordName>,
    /// The step it is at, from 0.
    #[schema(value_type = u32)]
    pub at: StepSeq,
    /// How many steps it has.
    pub steps: u16,
    /// What the finished steps cost, in millionths of a US dollar.
    pub cost_microusd: u64,
    /// When it was admitted.
    pub created_at: String,
    /// When it ended.
    pub completed_at: Option<String>,
}

impl From<&RunRecord> for RunLine {
    fn from(record: &RunRecord) -> Self {
        Self {
            run: record.key.run.clone(),
            workflow: record.workflow.clone(),
            version: record.workflow_version,
            status: record.status,
            trigger: record.trigger.kind.clone(),
            record: record.trigger.record.clone(),
            at: record.at,
            steps: record.steps,
            cost_microusd: record.cost_microusd,
            created_at: moment(record.created_at),
            completed_at: record.completed_at.map(moment),
        }
    }
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Runs {
    /// The runs.
    pub runs: Vec<RunLine>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// Why somebody says how a run goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// In their words; what is beyond 512 characters is cut off.
    #[serde(default)]
    #[schema(pattern = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\ufffe\\uffff]*$")]
    pub reason: String,
}

/// What became of what somebody said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunActionResult {
    /// It is done.
    Done,
    /// It happens as soon as the step lets it.
    Requested,
    /// It had been requested before; nothing changed.
    AlreadyRequested,
}

/// A run after somebody said how it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunActionResponse {
    /// Which run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Where it stands now.
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// What became of what was said.
    pub result: RunActionResult,
}

/// An event for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendSignal {
    /// Which delivery: the same id changes nothing the second time.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub id: SignalId,
    /// Which event.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub event: EventName,
    /// What comes with it; `null`, if absent.
    #[serde(default)]
    #[schema(value_type = Value)]
    pub payload: Value,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It ended the wait.
    Woke,
    /// It is kept for a wait that is not open yet.
    Kept,
    /// It had been delivered before; nothing changed.
    Duplicate,
}

/// An event that was delivered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delivered {
    /// What became of it.
    pub delivery: Delivery,
}

/// Part of a run's chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// The entries, oldest first.
    pub events: Vec<EventDocument>,
    /// How many the chain has, all told.
    pub total: u32,
    /// What to ask for as `after` to go on, if there is more.
    pub next: Option<u32>,
}

/// What taking back a finished run would do, newest effect first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoPlan {
    /// The run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Its effects.
    pub effects: Vec<UndoEffect>,
}

/// One effect of a finished run, and whether it would be taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoEffect {
    /// The step that had it.
    #[schema(value_type = String)]
    pub step: StepId,
    /// Its place in the run.
    #[schema(value_type = u32)]
    pub seq: StepSeq,
    /// What it changed.
    pub target: String,
    /// How it would be taken back.
    pub by: Option<UndoCall>,
    /// Why it would not.
    pub stays: Option<String>,
}

/// A call that takes an effect back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoCall {
    /// The tool.
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// Its fields.
    #[schema(value_type = Object)]
    pub with: Map<String, Value>,
}

impl From<engine::UndoPlan> for UndoPlan {
    fn from(plan: engine::UndoPlan) -> Self {
        Self { run: plan.run.run, effects: plan.effects.into_iter().map(Into::into).collect() }
    }
}

impl From<EngineUndoEffect> for UndoEffect {
    fn from(effect: EngineUndoEffect) -> Self {
        let EngineUndoEffect { step, seq, target, by } = effect;
        let (by, stays) = match by {
            Ok(call) => (Some(UndoCall { tool: call.tool, with: call.with }), None),
            Err(why) => (None, Some(why.to_string())),
        };
        Self { step, seq, target, by, stays }
    }
}
