//! Shortcuts, and the window that they open.
//!
//! Slack says who used one and on which message. What the message says is a stranger's text: it is offered to
//! whoever asks for the run, and counts as what they typed once they send it off.

use serde_json::Value;

use super::payload::Payload;
use super::{InvalidInteraction, Place, is_slack_id, person, trigger};
use crate::escape::units;
use crate::window::{
    INPUT_BLOCK, INPUT_TEXT, INPUT_UNITS_MAX, ON_MESSAGE, START, WORKFLOW_BLOCK, WORKFLOW_NAME,
};

/// A link to a message has some hundred characters; what is longer is left out.
const LINK_BYTES_MAX: usize = 512;

/// Somebody used a shortcut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortcut {
    /// The workspace they belong to.
    pub team: String,
    /// Who they are in it.
    pub user: String,
    /// What allows us to open a window for them, for three seconds.
    pub trigger_id: String,
    /// The message they used it on, if they did.
    pub said: Option<Said>,
}

/// A message that somebody wants a run about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Where it stands.
    pub place: Place,
    /// What it says, in Slack's own escapes.
    pub text: String,
    /// A link to it, if Slack gives one.
    pub permalink: Option<String>,
}

/// Somebody sent the window off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The workspace they belong to.
    pub team: String,
    /// Who they are in it.
    pub user: String,
    /// What Slack calls the window: the same, however often it is sent off.
    pub view: String,
    /// The workflow they chose.
    pub workflow: String,
    /// The input, as they typed it.
    pub input: String,
}

pub(super) fn global(payload: &Payload) -> Result<Shortcut, InvalidInteraction> {
    is_called(payload, START)?;
    shortcut(payload, None)
}

pub(super) fn on_message(payload: &Payload) -> Result<Shortcut, InvalidInteraction> {
    is_called(payload, ON_MESSAGE)?;
    let place = Place {
        channel: payload.text("/channel/id", "channel.id")?.to_owned(),
        ts: payload.text("/message/ts", "message.ts")?.to_owned(),
    };
    place.check().map_err(|_| InvalidInteraction::Field { field: "message" })?;
    let text = |pointer| payload.get(pointer).and_then(Value::as_str);
    let link = text("/message/permalink").filter(|link| link.len() <= LINK_BYTES_MAX);
    let said = Said {
        place,
        text: text("/message/text").unwrap_or_default().to_owned(),
        permalink: link.map(str::to_owned),
    };
    shortcut(payload, Some(said))
}

fn is_called(payload: &Payload, callback_id: &str) -> Result<(), InvalidInteraction> {
    let called = payload.text("/callback_id", "callback_id")?;
    if called == callback_id { Ok(()) } else { Err(InvalidInteraction::Action) }
}

fn shortcut(payload: &Payload, said: Option<Said>) -> Result<Shortcut, InvalidInteraction> {
    let (team, user) = person(payload)?;
    Ok(Shortcut { team, user, trigger_id: trigger(payload)?, said })
}

pub(super) fn filled(payload: &Payload) -> Result<Filled, InvalidInteraction> {
    let (team, user) = person(payload)?;
    let view = payload.text("/view/id", "view.id")?;
    if !is_slack_id(view, &['V']) {
        return Err(InvalidInteraction::Field { field: "view.id" });
    }
    let chosen = format!("/view/state/values/{WORKFLOW_BLOCK}/{WORKFLOW_NAME}/selected_option/value");
    let workflow = payload.text(&chosen, "view.state")?.to_owned();
    Ok(Filled { team, user, view: view.to_owned(), workflow, input: typed(payload)? })
}

/// What stands in the field for the input; Slack says `null` for an empty one.
fn typed(payload: &Payload) -> Result<String, InvalidInteraction> {
    let pointer = format!("/view/state/values/{INPUT_BLOCK}/{INPUT_TEXT}/value");
    match payload.get(&pointer) {
        None => Ok(String::new()),
        Some(Value::String(text)) if units(text) <= INPUT_UNITS_MAX => Ok(text.clone()),
        Some(_) => Err(InvalidInteraction::Field { field: "view.state" }),
    }
}
