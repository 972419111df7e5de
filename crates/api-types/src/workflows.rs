//! Workflows in use.

use domain::plan::TriggeredBy;
use domain::{Applied, Digest, Plan, WorkflowName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use views::time::moment;

/// A workflow to put to use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyWorkflow {
    /// The file, in YAML.
    pub source: String,
}

/// A workflow in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflow {
    /// Its name.
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    /// Its version; a later one is larger.
    pub version: u32,
    /// Its plan, by hash.
    #[schema(value_type = String)]
    pub plan: Digest,
    /// What starts runs of it by itself, if anything does.
    pub triggered_by: Option<String>,
    /// The same in full: from where, about what, and under which condition.
    #[schema(value_type = Option<Object>)]
    pub trigger: Option<TriggeredBy>,
    /// When it was put to use.
    pub applied_at: String,
    /// By whom.
    pub applied_by: String,
}

impl From<Applied> for Workflow {
    fn from(applied: Applied) -> Self {
        Self {
            workflow: applied.workflow,
            version: applied.version,
            plan: applied.plan,
            triggered_by: applied.triggered_by.as_ref().map(|by| by.source.to_string()),
            trigger: applied.triggered_by,
            applied_at: moment(applied.at),
            applied_by: applied.by.id,
        }
    }
}

/// The workflows in use, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workflows {
    /// The workflows.
    pub workflows: Vec<Workflow>,
}

/// Every version of a workflow that was put to use, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Versions {
    /// The versions.
    pub versions: Vec<Workflow>,
}

/// A workflow in use, with its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowShown {
    /// The workflow.
    pub workflow: Workflow,
    /// Every step, as it will be done.
    #[schema(value_type = Object)]
    pub definition: Value,
}

impl WorkflowShown {
    /// A workflow with its plan.
    pub fn new(applied: Applied, plan: &Plan) -> Self {
        Self { workflow: applied.into(), definition: json!(plan) }
    }
}
