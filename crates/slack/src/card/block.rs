//! Block Kit, as much of it as a card needs, and Slack's limits.
//!
//! Every text here has been escaped and bounded by whoever made it. Elements are `plain_text` without emoji,
//! in which Slack formats nothing; [`mrkdwn`] is for our own words alone.

use serde_json::{Value, json};

/// A message holds at most so many blocks.
pub const BLOCKS_MAX: usize = 50;
/// The text of a section.
pub const SECTION_UNITS_MAX: usize = 3_000;
/// A field of a section.
pub const FIELD_UNITS_MAX: usize = 2_000;
/// The fields of a section.
pub const FIELDS_MAX: usize = 10;
/// The text of a header.
pub const HEADER_UNITS_MAX: usize = 150;
/// The text of a button.
pub const BUTTON_UNITS_MAX: usize = 75;
/// The value of a button.
pub const VALUE_UNITS_MAX: usize = 2_000;
/// All texts of a message together. Slack does not say where its limit is; messages of 9,597 are known to
/// pass and of 11,341 to be refused as `msg_blocks_too_long`.
pub const MESSAGE_UNITS_MAX: usize = 9_500;

pub(crate) fn plain(text: &str) -> Value {
    json!({ "type": "plain_text", "text": text, "emoji": false })
}

pub(super) fn header(text: &str) -> Value {
    json!({ "type": "header", "text": plain(text) })
}

pub(crate) fn section(text: &str) -> Value {
    json!({ "type": "section", "text": plain(text) })
}

/// A section of named fields.
pub(super) fn fields(fields: &[(&str, String)]) -> Value {
    let fields: Vec<_> = fields.iter().map(|(name, value)| plain(&format!("{name}\n{value}"))).collect();
    json!({ "type": "section", "fields": fields })
}

/// Small print in our own words; nothing of a stranger's may stand in it.
pub(super) fn mrkdwn(text: &str) -> Value {
    let text = json!({ "type": "mrkdwn", "text": text, "verbatim": true });
    json!({ "type": "context", "elements": [text] })
}

pub(super) fn divider() -> Value {
    json!({ "type": "divider" })
}

pub(super) fn button(action_id: &str, style: &str, text: &str, value: &str) -> Value {
    json!({ "type": "button", "action_id": action_id, "style": style, "text": plain(text), "value": value })
}

/// A question that Slack asks before it sends a click.
pub(super) fn confirm(title: &str, text: &str, yes: &str) -> Value {
    json!({ "title": plain(title), "text": plain(text), "confirm": plain(yes), "deny": plain("Back") })
}
