//! Workflows.

use axum::Json;
use axum::http::StatusCode;
use domain::WorkflowName;
use store::Store;

use crate::extract::{JsonBody, PathParam};
use crate::problem::ApiError;
use crate::role_guard::{Admin, Viewer};
use api_types::SourceLocation;
use api_types::{ApplyWorkflow, Versions, Workflow, WorkflowDetail, Workflows};

/// The applied workflows.
pub(crate) async fn list<S: Store>(Viewer { handle, .. }: Viewer<S>) -> Result<Json<Workflows>, ApiError> {
    let workflows = handle.workflows().await?.into_iter().map(Workflow::from).collect();
    Ok(Json(Workflows { workflows }))
}

pub(crate) async fn show<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    PathParam(workflow): PathParam<WorkflowName>,
) -> Result<Json<WorkflowDetail>, ApiError> {
    let (applied, plan) = handle.applied(&workflow).await?;
    Ok(Json(WorkflowDetail::new(applied, plan.plan())))
}

pub(crate) async fn versions<S: Store>(
    Viewer { handle, .. }: Viewer<S>,
    PathParam(workflow): PathParam<WorkflowName>,
) -> Result<Json<Versions>, ApiError> {
    let versions: Vec<_> = handle.versions(&workflow).await?.into_iter().map(Workflow::from).collect();
    if versions.is_empty() {
        return Err(ApiError::not_found("workflow"));
    }
    Ok(Json(Versions { versions }))
}

pub(crate) async fn apply<S: Store>(
    Admin { handle, .. }: Admin<S>,
    JsonBody(ApplyWorkflow { source, dry_run }): JsonBody<ApplyWorkflow>,
) -> Result<Json<Workflow>, ApiError> {
    let plan = workflow::parse_for(&source, &handle.tools()).map_err(|error| invalid(&error))?;
    let applied = if dry_run { handle.check_plan(&plan).await? } else { handle.apply(&plan).await? };
    Ok(Json(applied.into()))
}

/// The response for an invalid workflow file.
pub(crate) fn invalid(error: &workflow::WorkflowError) -> ApiError {
    let workflow::SourcePosition { line, column } = error.position;
    let invalid = ApiError::new(StatusCode::BAD_REQUEST, "WORKFLOW_INVALID", error.to_string())
        .remedy("correct the file at this location and send it again");
    // Clients show the line at the location.
    if error.is_about_a_secret() {
        return invalid;
    }
    invalid.with_location(SourceLocation { file: None, line, column })
}
