//! The slash command `/countersign`. Only the user who typed it sees the reply.

use ::slack::card::block;
use ::slack::escape::{self, TextLimit};
use ::slack::slash_command::SlashCommand;
use ::slack::{UnknownSlackUser, require_role, slash_command};
use bytes::Bytes;
use domain::{Approval, Cause, Initiator, PersonId, Role, RunId, RunRecord, Subject, Tenant};
use engine::{Engine, EngineError};
use http::{Request, Response, StatusCode};
use serde_json::json;
use store::Store;

use super::interaction::accepted;
use super::start::describe;
use super::start::{self, NotStarted, StartRequest, start};
use super::{SlackInstallation, UNAVAILABLE, other_workspace, unsigned, with_time_limit};
use crate::response;

/// How many approvals a reply lists.
const LISTED_MAX: u32 = 20;

/// How much of a question a list shows.
const SUBJECT_UNITS_MAX: usize = 200;

const HELP: &str = "`/countersign approvals` lists pending approvals.\n\
                    `/countersign run RUN` shows the status of a run.";

const NO_RUN: &str = "Run not found.";

/// Handles `/countersign …`.
pub async fn command<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    request: &Request<Bytes>,
) -> Response<String> {
    if !installation.is_signed(request, engine.now()) {
        return unsigned();
    }
    if slash_command::is_ssl_check(request.body()) {
        return accepted();
    }
    let Some(slash) = slash_command::parse(request.body()) else {
        installation.count_refused("invalid_request");
        tracing::warn!(event = "slack_request_invalid", tenant = %installation.tenant, "invalid Slack command");
        return response::text(StatusCode::BAD_REQUEST, "invalid command");
    };
    if !installation.is_from_own_workspace(&slash.team) {
        return other_workspace();
    }
    match with_time_limit(Box::pin(authorize_and_run(engine, installation, &slash))).await {
        Some(Ok(text)) => ephemeral(&text),
        Some(Err(error)) => unavailable(&error),
        None => ephemeral(&outcome_unknown(installation, &slash)),
    }
}

async fn authorize_and_run<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    slash: &SlashCommand,
) -> Result<String, EngineError> {
    let tenant = engine.governance().tenant(&installation.tenant).await?;
    match tenant.slack_person(&slash.team, &slash.user) {
        None => Ok(UnknownSlackUser::UnknownUser.to_string()),
        Some(person) => match require_role(&tenant, person, Role::Viewer) {
            Ok(()) => run_command(engine, installation, slash, person, &tenant).await,
            Err(error) => Ok(error.to_string()),
        },
    }
}

async fn run_command<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    slash: &SlashCommand,
    person: &PersonId,
    directory: &Tenant,
) -> Result<String, EngineError> {
    if let Some((workflow, input)) = parse_start(&slash.text) {
        let (team, request_id) = (&slash.team, slash.trigger.as_deref());
        let request = StartRequest { directory, team, request_id, person, workflow, input };
        return match Box::pin(start(engine, installation, request)).await {
            Err(NotStarted::Failed(error)) => Err(error),
            Err(error) => Ok(error.to_string()),
            Ok(text) => Ok(text),
        };
    }
    let by = Initiator::new(Cause::User, person.as_str());
    let handle = engine.tenant_handle(&installation.tenant, &by);
    let words: Vec<&str> = slash.text.split_whitespace().collect();
    match &*words {
        ["approvals"] => {
            let open = handle.open_approvals(None, LISTED_MAX).await?;
            Ok(approval_list(&open.approvals))
        }
        ["run", run] => {
            let Ok(run) = RunId::new(run) else { return Ok(NO_RUN.to_owned()) };
            match handle.record(&run).await {
                Ok(run) => Ok(run_status(&run)),
                Err(EngineError::NoRun { .. }) => Ok(NO_RUN.to_owned()),
                // Its inbox entry has not started it.
                Err(EngineError::NotStarted { run, status }) => Ok(describe(&run.run, &status)),
                Err(error) => Err(error),
            }
        }
        _ => Ok(format!("{HELP}\n{}", start::HELP)),
    }
}

/// The workflow of `start WORKFLOW …`, and the rest of the line.
fn parse_start(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start().strip_prefix("start")?;
    let named = rest.trim_start();
    let workflow = named.split_whitespace().next().filter(|_| named.len() < rest.len())?;
    Some((workflow, &named[workflow.len()..]))
}

fn approval_list(approvals: &[Approval]) -> String {
    if approvals.is_empty() {
        return "No pending approvals.".to_owned();
    }
    let lines: Vec<String> = approvals.iter().map(approval_line).collect();
    lines.join("\n")
}

fn approval_line(approval: &Approval) -> String {
    let subject = match &approval.subject {
        Subject::Question { message } => message.clone(),
        Subject::Action { action, .. } => format!("{} on {}", action.tool, action.target),
    };
    let subject = escape::line(&subject, TextLimit::plain(SUBJECT_UNITS_MAX));
    format!("• `{}`, step `{}`, run `{}`: {subject}", approval.workflow, approval.step, approval.run.run)
}

fn run_status(run: &RunRecord) -> String {
    let at = (run.at.0 + 1).min(run.steps);
    format!(
        "`{}` of `{}`, version {}: `{}`, at step {at} of {}",
        run.key.run, run.workflow, run.workflow_version, run.status, run.steps
    )
}

/// The reply if the engine does not answer in time. Typing `start` again is a new request, so the reply names the run
/// whose status shows whether this one started.
fn outcome_unknown(installation: &SlackInstallation, slash: &SlashCommand) -> String {
    let run = parse_start(&slash.text)
        .and_then(|_| start::run_of(installation, &slash.team, slash.trigger.as_deref()));
    match run {
        None => UNAVAILABLE.to_owned(),
        Some(run) => format!(
            "It is not known yet whether `{run}` starts. Check `/countersign run {run}` before you try again."
        ),
    }
}

fn unavailable(error: &dyn std::error::Error) -> Response<String> {
    tracing::warn!(event = "slack_command_failed", error = %engine::error_chain(error), "Slack command failed");
    ephemeral(UNAVAILABLE)
}

/// A reply that only the user sees. Slack formats none of it: it can contain untrusted text, which must be escaped.
fn ephemeral(text: &str) -> Response<String> {
    let blocks = block::lines(text);
    response::json(StatusCode::OK, &json!({ "response_type": "ephemeral", "text": text, "blocks": blocks }))
}
