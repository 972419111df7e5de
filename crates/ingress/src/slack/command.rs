//! `/countersign`: a person asks in Slack how things stand, or for a run. The answer is for them alone.

use ::slack::command::Typed;
use ::slack::escape::{Bound, mrkdwn};
use ::slack::{Stranger, command};
use domain::{Approval, PersonId, RunId, RunKey, RunRecord, Subject};
use engine::{Engine, EngineError};
use serde_json::json;
use store::{PageQuery, Store};

use super::start::{self, NotStarted, Wish, start};
use super::status::became;
use super::{NOT_NOW, Request, Response, SlackInstallation, in_time};

/// What a person reads in one go.
const SHOWN_MAX: u32 = 20;

/// How much of a question is shown in a list.
const ASKS_UNITS_MAX: usize = 200;

const HELP: &str = "`/countersign approvals` lists what waits for an answer.\n\
                    `/countersign run RUN` says how a run stands.";

const NO_RUN: &str = "There is no such run.";

/// A person typed `/countersign …`.
pub async fn command<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    request: Request<'_>,
) -> Response {
    if let Err(response) = door.check(&request, engine.now()) {
        return response;
    }
    let Some(typed) = command::parse(request.body) else {
        tracing::warn!("a command cannot be used");
        return Response::text(400, "the command cannot be used");
    };
    match in_time(Box::pin(said(engine, door, &typed))).await {
        Some(Ok(text)) => to_them_alone(&text),
        Some(Err(error)) => unavailable(&error),
        None => to_them_alone(&not_known(door, &typed)),
    }
}

/// What whoever typed it is told.
async fn said<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    typed: &Typed,
) -> Result<String, EngineError> {
    let tenant = engine.tenant(&door.tenant).await?;
    match tenant.slack_person(&typed.team, &typed.user) {
        None => Ok(Stranger::UnknownUser.to_string()),
        Some(person) => answer(engine, door, typed, person).await,
    }
}

async fn answer<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    typed: &Typed,
    person: &PersonId,
) -> Result<String, EngineError> {
    if let Some((workflow, input)) = started(&typed.text) {
        let (team, name) = (&typed.team, typed.trigger.as_deref());
        return match Box::pin(start(engine, door, Wish { team, name, person, workflow, input })).await {
            Err(NotStarted::Failed(error)) => Err(error),
            Err(no) => Ok(no.to_string()),
            Ok(told) => Ok(told),
        };
    }
    let words: Vec<&str> = typed.text.split_whitespace().collect();
    match &*words {
        ["approvals"] => {
            let open = engine.store().open_approvals(&door.tenant, PageQuery::first(SHOWN_MAX)).await?;
            Ok(listed(&open.approvals))
        }
        ["run", run] => {
            let Ok(run) = RunId::new(run) else { return Ok(NO_RUN.to_owned()) };
            let key = RunKey { tenant: door.tenant.clone(), run };
            match engine.store().load(&key).await? {
                Some(run) => Ok(standing(&run)),
                None => missing(engine, key).await,
            }
        }
        _ => Ok(format!("{HELP}\n{}", start::HELP)),
    }
}

/// What is told of a run that is not there: what has become of what came in to start it, if something did.
async fn missing<S: Store>(engine: &Engine<S>, run: RunKey) -> Result<String, EngineError> {
    match engine.no_run(run).await {
        EngineError::NoRun { .. } => Ok(NO_RUN.to_owned()),
        EngineError::NotBegun { run, status } => Ok(became(&run.run, &status)),
        error => Err(error),
    }
}

/// The workflow that is to be started, and the rest of the line.
fn started(text: &str) -> Option<(&str, &str)> {
    let rest = text.trim_start().strip_prefix("start")?;
    let named = rest.trim_start();
    let workflow = named.split_whitespace().next().filter(|_| named.len() < rest.len())?;
    Some((workflow, &named[workflow.len()..]))
}

fn listed(approvals: &[Approval]) -> String {
    if approvals.is_empty() {
        return "Nothing waits for an answer.".to_owned();
    }
    let lines: Vec<String> = approvals.iter().map(line).collect();
    lines.join("\n")
}

/// Names and ids stand between backticks, in which Slack formats nothing; what they are made of holds none.
fn line(approval: &Approval) -> String {
    let asks = match &approval.subject {
        Subject::Question { message } => message.clone(),
        Subject::Action { action, .. } => format!("{} on {}", action.tool, action.target),
    };
    let asks = mrkdwn(&asks, Bound::plain(ASKS_UNITS_MAX));
    format!("• `{}`, step `{}`, run `{}`: {asks}", approval.workflow, approval.step, approval.run.run)
}

fn standing(run: &RunRecord) -> String {
    let at = (run.at.0 + 1).min(run.steps);
    format!(
        "`{}` of `{}`, version {}: `{}`, at step {at} of {}",
        run.key.run, run.workflow, run.workflow_version, run.status, run.steps
    )
}

/// What is said where nobody knows in time. Typing a start again would be another request, so the run is named by
/// which they find out whether this one starts.
fn not_known(door: &SlackInstallation, typed: &Typed) -> String {
    let run = started(&typed.text).and_then(|_| start::run_of(door, &typed.team, typed.trigger.as_deref()));
    match run {
        None => NOT_NOW.to_owned(),
        Some(run) => format!(
            "It is not known yet whether `{run}` starts; `/countersign run {run}` says so in a moment. Please look \
             there before you ask again."
        ),
    }
}

fn unavailable(error: &dyn std::error::Error) -> Response {
    tracing::warn!(error = %engine::told(error), "a command was not answered");
    to_them_alone(NOT_NOW)
}

fn to_them_alone(text: &str) -> Response {
    Response::json(200, &json!({ "response_type": "ephemeral", "text": text }))
}
