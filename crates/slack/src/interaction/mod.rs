//! Parses a user's action in Slack from a request whose [`signature`](crate::signature) was verified.
//!
//! Slack posts a form with one field, `payload`, that contains JSON. Only ids are used: team, user, approval, message;
//! and the input of a start modal. Names and the copy of the card are ignored. A payload that is not exactly as Slack sends
//! it is rejected.

mod message_ref;
mod payload;
mod response_url;
mod shortcut;

pub(crate) use domain::connection::is_slack_id;
use domain::failure::MESSAGE_CHARS_MAX;
use domain::json::InvalidJson;
use domain::{ApprovalId, Channel, Digest, RunKey};
use serde_json::Value;

use crate::card::{
    APPROVE, ButtonToken, CALLBACK_ID, InvalidButtonToken, REASON_BLOCK, REASON_INPUT, REJECT,
};
use crate::start_modal;
use payload::Payload;

pub(crate) use message_ref::is_channel;
pub use message_ref::{InvalidMessageRef, MessageRef};
pub use response_url::{ResponseOrigin, ResponseUrl};
pub use shortcut::{Shortcut, ShortcutMessage, StartSubmission};

/// The payload contains a copy of the message: at most 50 blocks of 3,000 characters, with up to twelve bytes for each
/// character in a form.
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interaction {
    /// A user approved, or rejected with a reason.
    Decision(Click),
    /// A user pressed Reject. Nothing is decided yet; ask for a reason.
    RejectPressed(Click),
    /// A user used a shortcut. Open the start modal.
    ShortcutUsed(Shortcut),
    /// A user submitted the start modal.
    StartSubmitted(StartSubmission),
}

impl Interaction {
    /// The workspace id.
    pub fn team(&self) -> &str {
        match self {
            Self::Decision(click) | Self::RejectPressed(click) => &click.team,
            Self::ShortcutUsed(shortcut) => &shortcut.team,
            Self::StartSubmitted(submission) => &submission.team,
        }
    }
}

/// A click on a card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Click {
    pub approval: ApprovalId,
    pub run: RunKey,
    /// The hash of the subject that the card showed.
    pub subject: Digest,
    pub approve: bool,
    /// The reason of a rejection; empty for an approval.
    pub reason: String,
    /// The workspace id.
    pub team: String,
    /// The user id.
    pub user: String,
    /// Accepts private replies for half an hour.
    pub response_url: Option<ResponseUrl>,
    /// Allows opening a modal for three seconds.
    pub trigger_id: String,
    /// The message with the button.
    pub place: MessageRef,
}

impl Click {
    /// The channel to record with the decision.
    pub fn through(&self) -> Channel {
        Channel::Slack { team: self.team.clone(), user: self.user.clone() }
    }

    pub fn token(&self) -> ButtonToken {
        ButtonToken { approval: self.approval.clone(), run: self.run.clone(), subject: self.subject }
    }
}

/// Why a request is not a valid interaction. No message repeats text of the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInteraction {
    #[error("the request has {bytes} bytes; at most {BODY_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("the request is not a form with one field `payload`")]
    NotAForm,
    /// Not JSON, or ambiguous JSON.
    #[error("the payload is not valid JSON")]
    Json(#[source] InvalidJson),
    #[error("the payload type must be `block_actions`, `shortcut`, `message_action` or `view_submission`")]
    Kind,
    #[error("the payload's `{field}` is missing or malformed")]
    Field { field: &'static str },
    #[error("the payload names no button, shortcut or modal of Countersign")]
    Action,
    #[error(transparent)]
    Token(#[from] InvalidButtonToken),
    /// The user belongs to another workspace than the card.
    #[error("the user belongs to another workspace")]
    OtherWorkspace,
    #[error("a bot cannot approve or reject")]
    Bot,
    #[error("the user is deactivated in Slack")]
    Deactivated,
    #[error("the payload's `response_url` is not a Slack URL")]
    ResponseUrl,
    #[error("a rejection needs a reason of 1 to {MESSAGE_CHARS_MAX} characters")]
    Reason,
}

/// Parses the body of a verified request. A response URL must have the origin `allowed`.
///
/// Slack waits three seconds for an empty `200`; do longer work after the response.
pub fn parse(body: &[u8], allowed: &ResponseOrigin) -> Result<Interaction, InvalidInteraction> {
    let payload = Payload::new(body)?;
    match payload.text("/type", "type")? {
        "block_actions" => parse_button(&payload, allowed),
        "shortcut" => shortcut::parse_global(&payload).map(Interaction::ShortcutUsed),
        "message_action" => shortcut::parse_on_message(&payload).map(Interaction::ShortcutUsed),
        "view_submission" => parse_submission(&payload),
        _ => Err(InvalidInteraction::Kind),
    }
}

fn parse_button(payload: &Payload, allowed: &ResponseOrigin) -> Result<Interaction, InvalidInteraction> {
    let action = payload.only_action()?;
    let approve = match action.text("/action_id", "action_id")? {
        APPROVE => true,
        REJECT => false,
        _ => return Err(InvalidInteraction::Action),
    };
    let token: ButtonToken = action.text("/value", "value")?.parse()?;
    let place = MessageRef {
        channel: payload.text("/container/channel_id", "container.channel_id")?.to_owned(),
        ts: payload.text("/container/message_ts", "container.message_ts")?.to_owned(),
    };
    place.check().map_err(|_| InvalidInteraction::Field { field: "container" })?;
    let response_url = allowed.parse_url(payload.text("/response_url", "response_url")?)?;
    let click = Click { response_url: Some(response_url), ..click(payload, token, place)? };
    Ok(if approve {
        Interaction::Decision(Click { approve, ..click })
    } else {
        Interaction::RejectPressed(click)
    })
}

fn parse_submission(payload: &Payload) -> Result<Interaction, InvalidInteraction> {
    match payload.text("/view/callback_id", "view.callback_id")? {
        CALLBACK_ID => parse_rejection(payload).map(Interaction::Decision),
        start_modal::CALLBACK_ID => shortcut::parse_submission(payload).map(Interaction::StartSubmitted),
        _ => Err(InvalidInteraction::Action),
    }
}

fn parse_rejection(payload: &Payload) -> Result<Click, InvalidInteraction> {
    let (token, place) = payload
        .text("/view/private_metadata", "view.private_metadata")?
        .split_once(' ')
        .ok_or(InvalidButtonToken)?;
    let place = place.parse().map_err(|_| InvalidInteraction::Field { field: "view.private_metadata" })?;
    let reason = parse_reason(payload)?;
    Ok(Click { reason, ..click(payload, token.parse()?, place)? })
}

fn parse_reason(payload: &Payload) -> Result<String, InvalidInteraction> {
    let pointer = format!("/view/state/values/{REASON_BLOCK}/{REASON_INPUT}/value");
    let reason = payload.text(&pointer, "view.state").map_err(|_| InvalidInteraction::Reason)?.trim();
    match reason.chars().count() {
        1..=MESSAGE_CHARS_MAX => Ok(reason.to_owned()),
        _ => Err(InvalidInteraction::Reason),
    }
}

/// The fields that a press and a submission share. `approve` is false until the caller sets it.
fn click(payload: &Payload, token: ButtonToken, place: MessageRef) -> Result<Click, InvalidInteraction> {
    let (team, user) = team_and_user(payload)?;
    let ButtonToken { approval, run, subject } = token;
    let (response_url, trigger_id) = (None, trigger_id(payload)?);
    let reason = String::new();
    Ok(Click { approval, run, subject, approve: false, reason, team, user, response_url, trigger_id, place })
}

fn trigger_id(payload: &Payload) -> Result<String, InvalidInteraction> {
    let trigger = payload.text("/trigger_id", "trigger_id")?;
    let valid = is_code(trigger, 256).then(|| trigger.to_owned());
    valid.ok_or(InvalidInteraction::Field { field: "trigger_id" })
}

/// Team and user. In a shared channel the payload names the guest's own team with the user. It must be the card's team,
/// because the directory knows only users of its own workspace.
fn team_and_user(payload: &Payload) -> Result<(String, String), InvalidInteraction> {
    let team = payload.text("/team/id", "team.id")?;
    let user = payload.text("/user/id", "user.id")?;
    if payload.is_bot() || user == "USLACKBOT" || user.starts_with('B') {
        return Err(InvalidInteraction::Bot);
    }
    if payload.is_deactivated() {
        return Err(InvalidInteraction::Deactivated);
    }
    if !is_slack_id(team, &['T', 'E']) {
        return Err(InvalidInteraction::Field { field: "team.id" });
    }
    if !is_slack_id(user, &['U', 'W']) {
        return Err(InvalidInteraction::Field { field: "user.id" });
    }
    match payload.get("/user/team_id") {
        None => {}
        Some(Value::String(own)) if own == team => {}
        Some(_) => return Err(InvalidInteraction::OtherWorkspace),
    }
    Ok((team.to_owned(), user.to_owned()))
}

fn is_code(text: &str, bytes_max: usize) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    (1..=bytes_max).contains(&text.len()) && text.chars().all(part)
}

#[cfg(test)]
mod tests;
