//! Workflows.

use axum::Json;
use axum::http::StatusCode;
use domain::WorkflowName;
use store::Store;

use crate::at::{Admin, Viewer};
use crate::extract::{Named, Sent};
use crate::problem::Problem;
use api_types::Place;
use api_types::{ApplyWorkflow, Versions, Workflow, WorkflowShown, Workflows};

/// The workflows in use.
pub(crate) async fn list<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Workflows>, Problem> {
    let workflows = handle.workflows().await?.into_iter().map(Workflow::from).collect();
    Ok(Json(Workflows { workflows }))
}

/// A workflow in use, with its plan.
pub(crate) async fn show<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    Named(workflow): Named<WorkflowName>,
) -> Result<Json<WorkflowShown>, Problem> {
    let (applied, plan) = handle.applied(&workflow).await?;
    Ok(Json(WorkflowShown::new(applied, plan.plan())))
}

/// Every version of a workflow that was put to use.
pub(crate) async fn versions<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    Named(workflow): Named<WorkflowName>,
) -> Result<Json<Versions>, Problem> {
    let versions: Vec<_> = handle.versions(&workflow).await?.into_iter().map(Workflow::from).collect();
    if versions.is_empty() {
        return Err(Problem::not_found("workflow"));
    }
    Ok(Json(Versions { versions }))
}

/// Puts a workflow to use.
pub(crate) async fn apply<S: Store>(
    Admin { handle, .. }: Admin<S>,
    Sent(ApplyWorkflow { source }): Sent<ApplyWorkflow>,
) -> Result<Json<Workflow>, Problem> {
    let plan = workflow::parse(&source, &handle.tools()).map_err(|error| invalid(&error))?;
    Ok(Json(handle.apply(&plan).await?.into()))
}

/// A file that is no workflow.
pub(crate) fn invalid(error: &workflow::WorkflowError) -> Problem {
    let workflow::Place { line, column } = error.place;
    Problem::new(StatusCode::BAD_REQUEST, "WORKFLOW_INVALID", error.to_string())
        .at(Place { file: None, line, column })
        .remedy("mend the file there and send it again")
}
