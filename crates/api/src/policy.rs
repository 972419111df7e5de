//! The policy that counts, settling on another, and what one would say.

use std::sync::Arc;

use axum::Json;
use domain::{Plan, Role, StepId};
use engine::{EngineError, Explain};
use serde_json::json;
use store::Store;
use workflow::CompiledPlan;

use crate::at::{Admin, Viewer};
use crate::extract::Sent;
use crate::problem::Problem;
use crate::workflows;
use api_types::{ApplyPolicy, ExplainPolicy, Explained, Policy, PolicyApplied, SampleAction};

/// What the one step of a sample is called, and its workflow.
const SAMPLE: &str = "sample";

/// The policy that counts.
pub(crate) async fn show<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Policy>, Problem> {
    Ok(Json(handle.policy().await?.into()))
}

/// Settles on a policy.
pub(crate) async fn apply<S: Store>(
    Admin { handle, .. }: Admin<S>,
    Sent(ApplyPolicy { files }): Sent<ApplyPolicy>,
) -> Result<Json<PolicyApplied>, Problem> {
    let applied = handle.apply_policy(files).await?;
    Ok(Json(PolicyApplied::new(handle.tenant_id().clone(), &applied)))
}

/// What would come of each step of a workflow, or of one of them.
pub(crate) async fn explain<S: Store>(
    at: Viewer<S>,
    Sent(wish): Sent<ExplainPolicy>,
) -> Result<Json<Explained>, Problem> {
    // Whoever sends one has the server run what they wrote.
    if wish.policy.is_some() && !at.caller.roles.allow(Role::Admin) {
        return Err(
            Problem::forbidden(Role::Admin).remedy("leave `policy` out: the one that counts is asked")
        );
    }
    let plan = plan(&at, &wish).await?;
    let ExplainPolicy { step, input, outputs, policy, .. } = wish;
    step.iter().chain(outputs.keys()).try_for_each(|step| must_be_in(plan.plan(), step))?;
    let (trigger_kind, sent) = (at.caller.trigger_kind().to_owned(), policy.is_some());
    let wish = Explain { plan: Arc::clone(&plan), trigger_kind, input, outputs, policy };
    let mut explained = Explained::new(plan.plan(), &at.handle.explain(wish).await?, sent);
    explained.steps.retain(|explained| step.as_ref().is_none_or(|step| *step == explained.id));
    Ok(Json(explained))
}

/// The workflow that is asked about: one in use, one that was sent, or one of a single action.
async fn plan<S: Store>(at: &Viewer<S>, wish: &ExplainPolicy) -> Result<Arc<CompiledPlan>, Problem> {
    match (&wish.workflow, &wish.source, &wish.action) {
        (Some(name), None, None) => {
            let found = match wish.version {
                Some(version) => at.handle.version(name, version).await,
                None => at.handle.applied(name).await,
            };
            found.map(|(_, plan)| plan).map_err(|error| no_plan(error, wish))
        }
        (None, Some(source), None) if wish.version.is_none() => {
            let plan = workflow::parse(source, &at.handle.tools());
            compiled(plan.map_err(|error| workflows::invalid(&error))?)
        }
        (None, None, Some(action)) if wish.version.is_none() => {
            let plan = workflow::parse(&source_of(action), &at.handle.tools());
            compiled(plan.map_err(|error| Problem::bad_request(format!("the action: {}", error.fault)))?)
        }
        _ => Err(Problem::bad_request("say what is asked about, in one of three ways")
            .remedy("send `workflow`, with or without its `version`, or `source`, or `action`")),
    }
}

fn no_plan(error: EngineError, wish: &ExplainPolicy) -> Problem {
    match (&error, &wish.workflow, wish.version) {
        (EngineError::NoWorkflow { .. }, Some(name), Some(version)) => {
            Problem::no_workflow(format!("version {version} of workflow {name} was never put to use"))
        }
        (EngineError::NoWorkflow { .. }, Some(name), None) => {
            Problem::no_workflow(format!("no workflow {name} is in use"))
        }
        _ => error.into(),
    }
}

fn compiled(plan: Plan) -> Result<Arc<CompiledPlan>, Problem> {
    let compiled = CompiledPlan::compile(plan).map_err(|error| Problem::bad_request(error.to_string()))?;
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

fn must_be_in(plan: &Plan, step: &StepId) -> Result<(), Problem> {
    if plan.seq_of(step).is_some() {
        return Ok(());
    }
    let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    Err(Problem::bad_request(format!("the workflow has no step `{step}`; there are {}", steps.join(", "))))
}
