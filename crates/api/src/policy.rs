//! The current policy, applying a policy, and explaining it.

use std::sync::Arc;

use axum::Json;
use domain::{Plan, Role, StepId};
use engine::{DryRunRequest, EngineError};
use serde_json::json;
use store::Store;
use workflow::CompiledPlan;

use crate::extract::JsonBody;
use crate::problem::ApiError;
use crate::role_guard::{Admin, Viewer};
use crate::workflows;
use api_types::{ApplyPolicy, ExplainPolicy, ExplainResult, Policy, PolicyApplied, SampleAction};

/// The name of the workflow, and of the only step, for a single action.
const SAMPLE: &str = "sample";

pub(crate) async fn show<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Policy>, ApiError> {
    Ok(Json(handle.policy().await?.into()))
}

pub(crate) async fn apply<S: Store>(
    Admin { handle, .. }: Admin<S>,
    JsonBody(ApplyPolicy { files }): JsonBody<ApplyPolicy>,
) -> Result<Json<PolicyApplied>, ApiError> {
    let applied = handle.apply_policy(files).await?;
    Ok(Json(PolicyApplied::new(handle.tenant_id().clone(), &applied)))
}

/// Evaluates the policy for each step of a workflow, or for one of them.
pub(crate) async fn explain<S: Store>(
    viewer: Viewer<S>,
    JsonBody(request): JsonBody<ExplainPolicy>,
) -> Result<Json<ExplainResult>, ApiError> {
    // The server would run the code of the caller.
    if request.policy.is_some() && !viewer.caller.roles.allow(Role::Admin) {
        return Err(ApiError::forbidden(Role::Admin).remedy("omit `policy` to evaluate the current policy"));
    }
    let plan = plan(&viewer, &request).await?;
    let ExplainPolicy { step, input, outputs, policy, .. } = request;
    step.iter().chain(outputs.keys()).try_for_each(|step| require_step(plan.plan(), step))?;
    let (trigger_kind, sent) = (viewer.caller.trigger_kind().to_owned(), policy.is_some());
    let request = DryRunRequest { plan: Arc::clone(&plan), trigger_kind, input, outputs, policy };
    let mut explained = ExplainResult::new(plan.plan(), &viewer.handle.explain(request).await?, sent);
    explained.steps.retain(|explained| step.as_ref().is_none_or(|step| *step == explained.id));
    Ok(Json(explained))
}

/// The plan of the request: an applied workflow, a workflow file, or a single action.
async fn plan<S: Store>(viewer: &Viewer<S>, request: &ExplainPolicy) -> Result<Arc<CompiledPlan>, ApiError> {
    match (&request.workflow, &request.source, &request.action) {
        (Some(name), None, None) => {
            let found = match request.version {
                Some(version) => viewer.handle.version(name, version).await,
                None => viewer.handle.applied(name).await,
            };
            found.map(|(_, plan)| plan).map_err(|error| no_plan(error, request))
        }
        (None, Some(source), None) if request.version.is_none() => {
            let plan = workflow::parse_for(source, &viewer.handle.tools());
            compile(plan.map_err(|error| workflows::invalid(&error))?)
        }
        (None, None, Some(action)) if request.version.is_none() => {
            let plan = workflow::parse_for(&source_of(action), &viewer.handle.tools());
            compile(plan.map_err(|error| ApiError::bad_request(format!("the action: {}", error.kind)))?)
        }
        _ => Err(ApiError::bad_request("exactly one of `workflow`, `source` and `action` is required")
            .remedy("send `workflow` (optionally with `version`), `source` or `action`")),
    }
}

fn no_plan(error: EngineError, request: &ExplainPolicy) -> ApiError {
    match (&error, &request.workflow, request.version) {
        (EngineError::NoWorkflow { .. }, Some(name), Some(version)) => {
            ApiError::no_workflow(format!("version {version} of workflow {name} was never applied"))
        }
        (EngineError::NoWorkflow { .. }, Some(name), None) => {
            ApiError::no_workflow(format!("no workflow {name} is applied"))
        }
        _ => error.into(),
    }
}

fn compile(plan: Plan) -> Result<Arc<CompiledPlan>, ApiError> {
    let compiled = CompiledPlan::compile(plan).map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(Arc::new(compiled))
}

/// A workflow of one step; JSON is YAML.
fn source_of(action: &SampleAction) -> String {
    let SampleAction { tool, with, environment, blast_radius } = action;
    let mut step = json!({ "id": SAMPLE, "tool": tool, "with": with });
    if let Some(blast_radius) = blast_radius {
        step["blast_radius"] = json!(blast_radius);
    }
    json!({ "workflow": SAMPLE, "version": 1, "environment": environment, "steps": [step] }).to_string()
}

fn require_step(plan: &Plan, step: &StepId) -> Result<(), ApiError> {
    if plan.seq_of(step).is_some() {
        return Ok(());
    }
    let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    Err(ApiError::bad_request(format!(
        "the workflow has no step `{step}`; its steps are {}",
        steps.join(", ")
    )))
}
