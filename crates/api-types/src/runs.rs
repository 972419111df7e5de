//! Runs: start, list, control.

use domain::{
    ConnectionName, EventName, RecordName, RunId, RunRecord, RunStatus, SignalId, StepId, StepSeq, ToolName,
    WorkflowName, WorkspaceId,
};
use engine::UndoEffect as EngineUndoEffect;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use views::EventDocument;
use views::time::rfc3339_millis;

/// A request to start a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// An applied workflow.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub workflow: WorkflowName,
    /// The workspace of the run; by default that of the workflow, or `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub workspace: Option<WorkspaceId>,
    /// The input of the run; an empty object by default.
    #[serde(default = "empty_object")]
    #[schema(value_type = Value)]
    pub input: Value,
    /// The external record of the run, such as `servicenow:incident:9d38` or `github:acme/shop#7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        value_type = Option<String>,
        pattern = "^[A-Za-z0-9._/#@+=-]+:[A-Za-z0-9._:/#@+=-]+$",
        max_length = 256
    )]
    pub record: Option<RecordName>,
}

fn empty_object() -> Value {
    Value::Object(Map::new())
}

/// A started run. A repeated request returns the same run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedRun {
    #[schema(value_type = String)]
    pub run: RunId,
    /// Whether the request joined the run of another request with the same concurrency key. It started no run then.
    #[serde(default)]
    pub joined: bool,
    /// The run that holds the concurrency key. The requested run starts, and can be read, after it has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub blocked_by: Option<RunId>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary {
    #[schema(value_type = String)]
    pub run: RunId,
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    pub version: u32,
    #[schema(value_type = String)]
    pub status: RunStatus,
    /// The trigger: `api`, `cli`, `servicenow` and so on.
    pub trigger: String,
    /// The external record, if the request named one.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub record: Option<RecordName>,
    /// The index of the current step, from 0.
    #[schema(value_type = u32)]
    pub current_step: StepSeq,
    /// The number of steps.
    pub steps: u16,
    /// The cost of the finished steps, in millionths of a US dollar.
    pub cost_microusd: u64,
    pub created_at: String,
    pub completed_at: Option<String>,
}

impl From<&RunRecord> for RunSummary {
    fn from(record: &RunRecord) -> Self {
        Self {
            run: record.key.run.clone(),
            workflow: record.workflow.clone(),
            version: record.workflow_version,
            status: record.status,
            trigger: record.trigger.kind.clone(),
            record: record.trigger.record.clone(),
            current_step: record.at,
            steps: record.steps,
            cost_microusd: record.cost_microusd,
            created_at: rfc3339_millis(record.created_at),
            completed_at: record.completed_at.map(rfc3339_millis),
        }
    }
}

/// A page of runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Runs {
    pub runs: Vec<RunSummary>,
    /// The cursor of the next page; null on the last page.
    pub next: Option<String>,
}

/// The reason for a request that changes a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonRequest {
    /// The reason, truncated after 512 characters.
    #[serde(default)]
    pub reason: String,
}

/// A request to roll back the effects of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// The reason, truncated after 512 characters.
    #[serde(default)]
    pub reason: String,
    /// Roll back the effect of this step and of every later step. The effects of earlier steps stay. Without it, all
    /// effects are rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        value_type = Option<String>,
        pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$",
        max_length = 128
    )]
    pub step: Option<StepId>,
}

/// The result of a request that changes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunActionResult {
    /// The change is done.
    Done,
    /// The change happens when the current step allows it.
    Requested,
    /// The change was requested before; nothing changed.
    AlreadyRequested,
    /// The run is rolling back, and ends when the rollback is complete; nothing changed.
    RollingBack,
}

/// The run after a request that changes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunActionResponse {
    #[schema(value_type = String)]
    pub run: RunId,
    #[schema(value_type = String)]
    pub status: RunStatus,
    pub result: RunActionResult,
}

/// An event for a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendSignal {
    /// The id of the delivery. A second delivery with the same id changes nothing.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub id: SignalId,
    #[schema(value_type = String, pattern = "^[A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length = 128)]
    pub event: EventName,
    /// The payload; null by default.
    #[serde(default)]
    #[schema(value_type = Value)]
    pub payload: Value,
}

/// The result of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalDelivery {
    /// The signal ended a wait.
    Delivered,
    /// The signal is stored for a step that does not wait yet.
    Buffered,
    /// The signal was delivered before; nothing changed.
    Duplicate,
}

/// A delivered signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignalResponse {
    pub delivery: SignalDelivery,
}

/// A part of the chain of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Events {
    /// The events, oldest first.
    pub events: Vec<EventDocument>,
    /// The number of events of the chain.
    pub total: u32,
    /// The value of `after` for the next page; null on the last page.
    pub next: Option<u32>,
}

/// The plan to undo a finished run, newest effect first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoPlan {
    #[schema(value_type = String)]
    pub run: RunId,
    pub effects: Vec<UndoEffect>,
}

/// One effect of a finished run, and whether the undo rolls it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoEffect {
    #[schema(value_type = String)]
    pub step: StepId,
    /// The index of the step, from 0.
    #[schema(value_type = u32)]
    pub seq: StepSeq,
    /// The target of the effect.
    pub target: String,
    /// The call that rolls the effect back.
    pub call: Option<UndoCall>,
    /// The reason why the effect is not rolled back.
    pub skip_reason: Option<String>,
}

/// A call that rolls an effect back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UndoCall {
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// The connection that the call uses.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionName>,
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
        let (call, skip_reason) = match by {
            Ok(call) => {
                let engine::UndoCall { tool, connection, with } = call;
                (Some(UndoCall { tool, connection, with }), None)
            }
            Err(why) => (None, Some(why.to_string())),
        };
        Self { step, seq, target, call, skip_reason }
    }
}
