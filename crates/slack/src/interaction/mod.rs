//! What a person did in Slack, read from a request whose [`signature`](crate::signature) was verified before.
//!
//! Slack posts a form with one field, `payload`, that holds JSON. Of all that stands in there only ids are
//! used: which team and user, which approval, which message; and, where somebody asks for a run, what they
//! typed. Names and the copy of a card are for others. Whatever is not exactly as Slack sends it is refused.

mod hooks;
mod payload;
mod place;
mod shortcut;

use domain::failure::MESSAGE_CHARS_MAX;
use domain::json::InvalidJson;
use domain::{ApprovalId, Channel, Digest, RunKey};
use serde_json::Value;

use crate::card::{APPROVE, CALLBACK_ID, InvalidToken, REASON_BLOCK, REASON_INPUT, REJECT, Token};
use crate::window;
use payload::Payload;

pub use hooks::{Hooks, ResponseUrl};
pub(crate) use place::is_channel;
pub use place::{InvalidPlace, Place};
pub use shortcut::{Filled, Said, Shortcut};

/// What Slack posts holds a copy of the message, which has at most 50 blocks of 3,000 characters, each of
/// which may take twelve bytes in a form.
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What a person did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interaction {
    /// They answered; the answer counts if they may.
    Answered(Click),
    /// They pressed Reject, and are to be asked why; nothing is decided yet.
    WantsToReject(Click),
    /// They used a shortcut, and are to be asked which run they want.
    WantsToStart(Shortcut),
    /// They said which.
    Starts(Filled),
}

/// A person's answer, as Slack tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Click {
    /// The approval they saw.
    pub approval: ApprovalId,
    /// Its run.
    pub run: RunKey,
    /// The hash of what they saw.
    pub subject: Digest,
    /// Yes or no.
    pub approve: bool,
    /// Why, in their words; empty for a yes.
    pub reason: String,
    /// The workspace they belong to.
    pub team: String,
    /// Who they are in it.
    pub user: String,
    /// Where they can be answered, for half an hour.
    pub response_url: Option<ResponseUrl>,
    /// What allows us to open a window for them, for three seconds.
    pub trigger_id: String,
    /// The message that was clicked.
    pub place: Place,
}

impl Click {
    /// How surely they are known: by Slack's signature.
    pub fn through(&self) -> Channel {
        Channel::Slack { team: self.team.clone(), user: self.user.clone() }
    }

    /// What the button carried.
    pub fn token(&self) -> Token {
        Token { approval: self.approval.clone(), run: self.run.clone(), subject: self.subject }
    }
}

/// Why a request is nothing that a person did here. No text of the request stands in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidInteraction {
    /// More than [`BODY_BYTES_MAX`].
    #[error("the request has {bytes} bytes; at most {BODY_BYTES_MAX} are allowed")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
    /// Not a form with the one field `payload`.
    #[error("the request is not a form with one field `payload`")]
    NotAForm,
    /// The field holds no JSON that everybody reads the same.
    #[error("the payload is no JSON")]
    Json(#[source] InvalidJson),
    /// Neither a press of a button, nor a shortcut, nor a window that was sent off.
    #[error("the payload is none of `block_actions`, `shortcut`, `message_action` and `view_submission`")]
    Kind,
    /// Something is missing, or is not what it should be.
    #[error("the payload's `{field}` is missing or malformed")]
    Field {
        /// Where it should stand.
        field: &'static str,
    },
    /// Not exactly one of our buttons, shortcuts or windows.
    #[error("the payload is not about one of our buttons, shortcuts or windows")]
    Action,
    /// A button of somebody else's.
    #[error(transparent)]
    Token(#[from] InvalidToken),
    /// Whoever clicked belongs to another workspace than the one the card is in.
    #[error("whoever clicked belongs to another workspace")]
    OtherWorkspace,
    /// Whoever clicked is no person.
    #[error("a bot cannot answer for a person")]
    Bot,
    /// The address for answers is not Slack's.
    #[error("the payload's response_url does not lead to Slack")]
    ResponseUrl,
    /// A no needs a reason that people can read.
    #[error("a rejection needs a reason of 1 to {MESSAGE_CHARS_MAX} characters")]
    Reason,
}

/// Reads the body of a verified request. Answers may only go where `hooks` says.
///
/// Slack waits three seconds for an empty `200`; whatever takes longer is done after it.
pub fn parse(body: &[u8], hooks: &Hooks) -> Result<Interaction, InvalidInteraction> {
    let payload = Payload::of(body)?;
    match payload.text("/type", "type")? {
        "block_actions" => pressed(&payload, hooks),
        "shortcut" => shortcut::global(&payload).map(Interaction::WantsToStart),
        "message_action" => shortcut::on_message(&payload).map(Interaction::WantsToStart),
        "view_submission" => submitted(&payload),
        _ => Err(InvalidInteraction::Kind),
    }
}

fn pressed(payload: &Payload, hooks: &Hooks) -> Result<Interaction, InvalidInteraction> {
    let action = payload.only_action()?;
    let approve = match action.text("/action_id", "action_id")? {
        APPROVE => true,
        REJECT => false,
        _ => return Err(InvalidInteraction::Action),
    };
    let token: Token = action.text("/value", "value")?.parse()?;
    let place = Place {
        channel: payload.text("/container/channel_id", "container.channel_id")?.to_owned(),
        ts: payload.text("/container/message_ts", "container.message_ts")?.to_owned(),
    };
    place.check().map_err(|_| InvalidInteraction::Field { field: "container" })?;
    let response_url = hooks.admit(payload.text("/response_url", "response_url")?)?;
    let click = Click { response_url: Some(response_url), ..click(payload, token, place)? };
    Ok(if approve {
        Interaction::Answered(Click { approve, ..click })
    } else {
        Interaction::WantsToReject(click)
    })
}

fn submitted(payload: &Payload) -> Result<Interaction, InvalidInteraction> {
    match payload.text("/view/callback_id", "view.callback_id")? {
        CALLBACK_ID => rejected(payload).map(Interaction::Answered),
        window::CALLBACK_ID => shortcut::filled(payload).map(Interaction::Starts),
        _ => Err(InvalidInteraction::Action),
    }
}

fn rejected(payload: &Payload) -> Result<Click, InvalidInteraction> {
    let (token, place) = payload
        .text("/view/private_metadata", "view.private_metadata")?
        .split_once(' ')
        .ok_or(InvalidToken)?;
    let place = place.parse().map_err(|_| InvalidInteraction::Field { field: "view.private_metadata" })?;
    let reason = reason(payload)?;
    Ok(Click { reason, ..click(payload, token.parse()?, place)? })
}

fn reason(payload: &Payload) -> Result<String, InvalidInteraction> {
    let pointer = format!("/view/state/values/{REASON_BLOCK}/{REASON_INPUT}/value");
    let reason = payload.text(&pointer, "view.state").map_err(|_| InvalidInteraction::Reason)?.trim();
    match reason.chars().count() {
        1..=MESSAGE_CHARS_MAX => Ok(reason.to_owned()),
        _ => Err(InvalidInteraction::Reason),
    }
}

/// What both kinds have in common: who it was. A no, until somebody says otherwise.
fn click(payload: &Payload, token: Token, place: Place) -> Result<Click, InvalidInteraction> {
    let (team, user) = person(payload)?;
    let Token { approval, run, subject } = token;
    let (response_url, trigger_id) = (None, trigger(payload)?);
    let reason = String::new();
    Ok(Click { approval, run, subject, approve: false, reason, team, user, response_url, trigger_id, place })
}

/// What allows us to open a window.
fn trigger(payload: &Payload) -> Result<String, InvalidInteraction> {
    let trigger = payload.text("/trigger_id", "trigger_id")?;
    let used = is_code(trigger, 256).then(|| trigger.to_owned());
    used.ok_or(InvalidInteraction::Field { field: "trigger_id" })
}

/// Team and user. In a channel that two workspaces share, a guest's own team is named beside the user; it
/// must be the card's, because a directory knows its own people only.
fn person(payload: &Payload) -> Result<(String, String), InvalidInteraction> {
    let team = payload.text("/team/id", "team.id")?;
    let user = payload.text("/user/id", "user.id")?;
    if payload.is_bot() || user == "USLACKBOT" || user.starts_with('B') {
        return Err(InvalidInteraction::Bot);
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

/// Whether `text` is an id as Slack makes them: a letter for its kind, then capitals and digits.
pub(crate) fn is_slack_id(text: &str, kinds: &[char]) -> bool {
    let rest = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    text.starts_with(kinds) && (2..=32).contains(&text.len()) && text.chars().all(rest)
}

fn is_code(text: &str, bytes_max: usize) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '.';
    (1..=bytes_max).contains(&text.len()) && text.chars().all(part)
}

#[cfg(test)]
mod tests;
