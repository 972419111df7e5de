//! Applied workflows.

use domain::plan::TriggeredBy;
use domain::{AppliedWorkflow, Digest, Plan, WorkflowName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use views::time::rfc3339_millis;

/// A request to apply a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyWorkflow {
    /// The workflow file, in YAML.
    pub source: String,
    /// Only check the file, and the connections, the author and the trigger that it names. Nothing is applied.
    #[serde(default)]
    pub dry_run: bool,
}

/// An applied workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    /// The version. It increases with every change.
    pub version: u32,
    /// The hash of the plan.
    #[schema(value_type = String)]
    pub plan: Digest,
    /// The source of the trigger, if the workflow has one.
    pub triggered_by: Option<String>,
    /// The trigger in full.
    #[schema(value_type = Option<Object>)]
    pub trigger: Option<TriggeredBy>,
    pub applied_at: String,
    pub applied_by: String,
}

impl From<AppliedWorkflow> for Workflow {
    fn from(applied: AppliedWorkflow) -> Self {
        Self {
            workflow: applied.workflow,
            version: applied.version,
            plan: applied.plan,
            triggered_by: applied.triggered_by.as_ref().map(|by| by.source.to_string()),
            trigger: applied.triggered_by,
            applied_at: rfc3339_millis(applied.at),
            applied_by: applied.by.id,
        }
    }
}

/// The applied workflows, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflows {
    pub workflows: Vec<Workflow>,
}

/// All applied versions of a workflow, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Versions {
    pub versions: Vec<Workflow>,
}

/// An applied workflow, with its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowDetail {
    pub workflow: Workflow,
    /// The compiled plan.
    #[schema(value_type = Object)]
    pub definition: Value,
}

impl WorkflowDetail {
    pub fn new(applied: AppliedWorkflow, plan: &Plan) -> Self {
        Self { workflow: applied.into(), definition: json!(plan) }
    }
}
