//! The Slack shortcut that starts a run.
//!
//! It opens a modal with the applied workflows. Submitting the modal starts a run, as `/countersign start` does. The
//! modal shows errors; a direct message from the app reports a run that was accepted.

use ::slack::start_modal::{self, INPUT_BLOCK, WORKFLOW_BLOCK};
use ::slack::{Shortcut, StartSubmission, UnknownSlackUser, require_role};
use domain::{Cause, Initiator, Role, WorkflowName};
use engine::{Engine, EngineError};
use http::{Response, StatusCode};
use serde_json::Value;
use store::Store;

use super::interaction::{accepted, call_slack};
use super::start::{NotStarted, StartRequest, start};
use super::{SlackInstallation, UNAVAILABLE, with_time_limit};
use crate::response;

/// A modal is one request, so submitting it again is safe.
const OUTCOME_UNKNOWN: &str =
    "It is not known yet whether the run starts. Submit the form again without changes: it starts one run.";

/// The modal for the user of `shortcut`.
pub(super) async fn modal<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    shortcut: &Shortcut,
) -> Value {
    match with_time_limit(Box::pin(workflows(engine, installation, shortcut))).await {
        Some(Ok(workflows)) => start_modal::render(&workflows, shortcut.message.as_ref()),
        Some(Err(NotStarted::Failed(error))) => start_modal::notice(&failure_text(error)),
        Some(Err(error)) => start_modal::notice(&error.to_string()),
        None => start_modal::notice(UNAVAILABLE),
    }
}

/// The workflows that the user can start.
async fn workflows<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    shortcut: &Shortcut,
) -> Result<Vec<WorkflowName>, NotStarted> {
    let tenant = engine.governance().tenant(&installation.tenant).await?;
    let person = tenant.slack_person(&shortcut.team, &shortcut.user);
    let person = person.ok_or(NotStarted::UnknownSlackUser(UnknownSlackUser::UnknownUser))?;
    require_role(&tenant, person, Role::Operator)?;
    let by = Initiator::new(Cause::User, person.as_str());
    let applied = engine.tenant_handle(&installation.tenant, &by).workflows().await?;
    Ok(applied.into_iter().map(|applied| applied.workflow).collect())
}

/// Handles a submitted modal: it closes, or stays open and shows the error.
pub(super) async fn submit<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    form: &StartSubmission,
) -> Response<String> {
    match with_time_limit(Box::pin(start_from_form(engine, installation, form))).await {
        None => field_error(WORKFLOW_BLOCK, OUTCOME_UNKNOWN),
        Some(Ok(text)) => {
            call_slack(installation.slack.send_direct_message(&form.user, &text)).await;
            accepted()
        }
        Some(Err(error)) => error_response(error),
    }
}

async fn start_from_form<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    form: &StartSubmission,
) -> Result<String, NotStarted> {
    let StartSubmission { team, user, view, workflow, input } = form;
    let tenant = engine.governance().tenant(&installation.tenant).await?;
    let person = tenant.slack_person(team, user);
    let person = person.ok_or(NotStarted::UnknownSlackUser(UnknownSlackUser::UnknownUser))?;
    let request = StartRequest { directory: &tenant, team, request_id: Some(view), person, workflow, input };
    Box::pin(start(engine, installation, request)).await
}

/// Keeps the modal open, with the error at the field concerned.
fn error_response(error: NotStarted) -> Response<String> {
    let block = match &error {
        NotStarted::Input | NotStarted::Refused(_) => INPUT_BLOCK,
        NotStarted::Workflow
        | NotStarted::RequestId
        | NotStarted::UnknownSlackUser(_)
        | NotStarted::Role(_)
        | NotStarted::Failed(_) => WORKFLOW_BLOCK,
    };
    let text = if let NotStarted::Failed(error) = error { failure_text(error) } else { error.to_string() };
    field_error(block, &text)
}

fn field_error(block: &str, text: &str) -> Response<String> {
    response::json_text(StatusCode::OK, start_modal::field_error(block, text))
}

fn failure_text(error: EngineError) -> String {
    tracing::warn!(event = "slack_shortcut_failed", error = %engine::error_chain(&error), "Slack shortcut failed");
    NotStarted::Failed(error).to_string()
}
