//! Shortcuts, and submissions of the modal that they open.
//!
//! The text of a message is untrusted. The modal shows it to the user, and it becomes the user's input when they submit
//! the modal.

use serde_json::Value;

use super::payload::Payload;
use super::{InvalidInteraction, MessageRef, is_slack_id, team_and_user, trigger_id};
use crate::escape::units;
use crate::start_modal::{
    INPUT_BLOCK, INPUT_TEXT, INPUT_UNITS_MAX, ON_MESSAGE, START, WORKFLOW_BLOCK, WORKFLOW_NAME,
};

/// Links to messages have about a hundred characters; a longer one is dropped.
const LINK_BYTES_MAX: usize = 512;

/// The use of a shortcut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortcut {
    /// The workspace id.
    pub team: String,
    /// The user id.
    pub user: String,
    /// Allows opening a modal for three seconds.
    pub trigger_id: String,
    /// The message, for a message shortcut.
    pub message: Option<ShortcutMessage>,
}

/// The message that a shortcut was used on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortcutMessage {
    pub place: MessageRef,
    /// The text, with Slack's escapes.
    pub text: String,
    pub permalink: Option<String>,
}

/// A submitted start modal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartSubmission {
    /// The workspace id.
    pub team: String,
    /// The user id.
    pub user: String,
    /// The view id. It is the same if the modal is submitted again.
    pub view: String,
    pub workflow: String,
    /// The input as typed.
    pub input: String,
}

pub(super) fn parse_global(payload: &Payload) -> Result<Shortcut, InvalidInteraction> {
    check_callback_id(payload, START)?;
    shortcut(payload, None)
}

pub(super) fn parse_on_message(payload: &Payload) -> Result<Shortcut, InvalidInteraction> {
    check_callback_id(payload, ON_MESSAGE)?;
    let place = MessageRef {
        channel: payload.text("/channel/id", "channel.id")?.to_owned(),
        ts: payload.text("/message/ts", "message.ts")?.to_owned(),
    };
    place.check().map_err(|_| InvalidInteraction::Field { field: "message" })?;
    let text = |pointer| payload.get(pointer).and_then(Value::as_str);
    let link = text("/message/permalink").filter(|link| link.len() <= LINK_BYTES_MAX);
    let message = ShortcutMessage {
        place,
        text: text("/message/text").unwrap_or_default().to_owned(),
        permalink: link.map(str::to_owned),
    };
    shortcut(payload, Some(message))
}

fn check_callback_id(payload: &Payload, callback_id: &str) -> Result<(), InvalidInteraction> {
    let actual = payload.text("/callback_id", "callback_id")?;
    if actual == callback_id { Ok(()) } else { Err(InvalidInteraction::Action) }
}

fn shortcut(payload: &Payload, message: Option<ShortcutMessage>) -> Result<Shortcut, InvalidInteraction> {
    let (team, user) = team_and_user(payload)?;
    Ok(Shortcut { team, user, trigger_id: trigger_id(payload)?, message })
}

pub(super) fn parse_submission(payload: &Payload) -> Result<StartSubmission, InvalidInteraction> {
    let (team, user) = team_and_user(payload)?;
    let view = payload.text("/view/id", "view.id")?;
    if !is_slack_id(view, &['V']) {
        return Err(InvalidInteraction::Field { field: "view.id" });
    }
    let pointer = format!("/view/state/values/{WORKFLOW_BLOCK}/{WORKFLOW_NAME}/selected_option/value");
    let workflow = payload.text(&pointer, "view.state")?.to_owned();
    Ok(StartSubmission { team, user, view: view.to_owned(), workflow, input: input_value(payload)? })
}

/// The value of the input field; Slack sends `null` if it is empty.
fn input_value(payload: &Payload) -> Result<String, InvalidInteraction> {
    let pointer = format!("/view/state/values/{INPUT_BLOCK}/{INPUT_TEXT}/value");
    match payload.get(&pointer) {
        None => Ok(String::new()),
        Some(Value::String(text)) if units(text) <= INPUT_UNITS_MAX => Ok(text.clone()),
        Some(_) => Err(InvalidInteraction::Field { field: "view.state" }),
    }
}
