//! A shortcut: somebody asks in Slack for a run where they stand, without a command.
//!
//! It opens a window that offers the workflows in use. Sending that off starts a run as `/countersign start` does; what is
//! wrong with it is shown in the window, and of a run that starts they read in a message of the app to them alone.

use ::slack::window::{self, INPUT_BLOCK, WORKFLOW_BLOCK};
use ::slack::{Filled, Shortcut, Stranger};
use domain::WorkflowName;
use engine::{Engine, EngineError};
use serde_json::Value;
use store::Store;

use super::interaction::{accepted, within};
use super::start::{NotStarted, Wish, start};
use super::{NOT_NOW, Response, SlackInstallation, in_time};

/// A window is one request however often it is sent off, so nothing is lost by doing it again.
const NOT_KNOWN: &str =
    "It is not known yet whether the run starts. Please send this off again as it is; it starts once.";

/// The window for whoever used `shortcut`.
pub(super) async fn offered<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    shortcut: &Shortcut,
) -> Value {
    match in_time(Box::pin(workflows(engine, door, shortcut))).await {
        Some(Ok(Some(workflows))) => window::offer(&workflows, shortcut.said.as_ref()),
        Some(Ok(None)) => window::notice(&Stranger::UnknownUser.to_string()),
        Some(Err(error)) => window::notice(&failed(error)),
        None => window::notice(NOT_NOW),
    }
}

/// What they may start; nothing, if nobody knows them.
async fn workflows<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    shortcut: &Shortcut,
) -> Result<Option<Vec<WorkflowName>>, EngineError> {
    let tenant = engine.tenant(&door.tenant).await?;
    if tenant.slack_person(&shortcut.team, &shortcut.user).is_none() {
        return Ok(None);
    }
    let applied = engine.applied(&door.tenant).await?;
    Ok(Some(applied.into_iter().map(|applied| applied.workflow).collect()))
}

/// Starts what `filled` asks for. The window closes, or stays open and says why not.
pub(super) async fn started<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    filled: &Filled,
) -> Response {
    match in_time(Box::pin(asked(engine, door, filled))).await {
        None => refused(WORKFLOW_BLOCK, NOT_KNOWN),
        Some(Ok(told)) => {
            within(door.slack.write_to(&filled.user, &told)).await;
            accepted()
        }
        Some(Err(no)) => explained(no),
    }
}

/// Asks for the run on behalf of whoever sent the window off.
async fn asked<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
    filled: &Filled,
) -> Result<String, NotStarted> {
    let Filled { team, user, view, workflow, input } = filled;
    let tenant = engine.tenant(&door.tenant).await?;
    let person = tenant.slack_person(team, user);
    let person = person.ok_or(NotStarted::Stranger(Stranger::UnknownUser))?;
    let wish = Wish { team, name: Some(view), person, workflow, input };
    Box::pin(start(engine, door, wish)).await
}

/// The window as it stays open, with why no run starts.
fn explained(no: NotStarted) -> Response {
    let block = match &no {
        NotStarted::Input | NotStarted::Refused(_) => INPUT_BLOCK,
        NotStarted::Workflow | NotStarted::Name | NotStarted::Stranger(_) | NotStarted::Failed(_) => {
            WORKFLOW_BLOCK
        }
    };
    let words = if let NotStarted::Failed(error) = no { failed(error) } else { no.to_string() };
    refused(block, &words)
}

fn refused(block: &str, words: &str) -> Response {
    Response::json_text(200, window::refused(block, words))
}

fn failed(error: EngineError) -> String {
    tracing::warn!(error = %engine::told(&error), "a shortcut was not answered");
    NotStarted::Failed(error).to_string()
}
