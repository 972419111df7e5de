//! A shortcut: somebody asks in Slack for a run where they stand, without a command.
//!
//! It opens a window that offers the workflows in use. Sending that off starts a run as `/countersign start` does; what is
//! wrong with it is shown in the window, and of a run that starts they read in a message of the app to them alone.

use domain::WorkflowName;
use engine::{Engine, EngineError};
use notify::window::{self, INPUT_BLOCK, WORKFLOW_BLOCK};
use notify::{Filled, Shortcut, Stranger};
use serde_json::Value;
use store::Store;

use super::interaction::{accepted, within};
use super::start::{NotStarted, Wish, start};
use super::{Response, SlackDoor};

/// The window for whoever used `shortcut`.
pub(super) async fn offered<S: Store>(engine: &Engine<S>, door: &SlackDoor, shortcut: &Shortcut) -> Value {
    match workflows(engine, door, shortcut).await {
        Ok(Some(workflows)) => window::offer(&workflows, shortcut.said.as_ref()),
        Ok(None) => window::notice(&Stranger::UnknownUser.to_string()),
        Err(error) => window::notice(&failed(error)),
    }
}

/// What they may start; nothing, if nobody knows them.
async fn workflows<S: Store>(
    engine: &Engine<S>,
    door: &SlackDoor,
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
pub(super) async fn started<S: Store>(engine: &Engine<S>, door: &SlackDoor, filled: &Filled) -> Response {
    let tenant = match engine.tenant(&door.tenant).await {
        Ok(tenant) => tenant,
        Err(error) => return refused(WORKFLOW_BLOCK, &failed(error)),
    };
    let Some(person) = tenant.slack_person(&filled.team, &filled.user) else {
        return refused(WORKFLOW_BLOCK, &Stranger::UnknownUser.to_string());
    };
    let Filled { team, view, workflow, input, .. } = filled;
    let wish = Wish { team, name: Some(view), person, workflow, input };
    match Box::pin(start(engine, door, wish)).await {
        Ok(told) => {
            within(door.slack.write_to(&filled.user, &told)).await;
            accepted()
        }
        Err(NotStarted::Failed(error)) => refused(WORKFLOW_BLOCK, &failed(error)),
        Err(no @ (NotStarted::Workflow | NotStarted::Name)) => refused(WORKFLOW_BLOCK, &no.to_string()),
        Err(no @ (NotStarted::Input | NotStarted::Refused(_))) => refused(INPUT_BLOCK, &no.to_string()),
    }
}

fn refused(block: &str, words: &str) -> Response {
    Response::json_text(200, window::refused(block, words))
}

fn failed(error: EngineError) -> String {
    tracing::warn!(error = %engine::told(&error), "a shortcut was not answered");
    NotStarted::Failed(error).to_string()
}
