//! Block Kit elements, and Slack's limits.
//!
//! The caller escapes and limits every text. Elements are `plain_text` without emoji, in which Slack formats nothing;
//! [`mrkdwn`] must not contain untrusted text.

use serde_json::{Value, json};

/// Blocks of a message.
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
/// All texts of a message together. Slack does not document its limit: 9,597 are known to pass, and 11,341 to fail with
/// `msg_blocks_too_long`.
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

/// The lines of an escaped text, in which Slack formats nothing.
pub fn lines(text: &str) -> Vec<Value> {
    text.lines().filter(|line| !line.is_empty()).take(BLOCKS_MAX).map(section).collect()
}

pub(super) fn fields(fields: &[(&str, String)]) -> Value {
    let fields: Vec<_> = fields.iter().map(|(name, value)| plain(&format!("{name}\n{value}"))).collect();
    json!({ "type": "section", "fields": fields })
}

/// Small print that Slack formats. It must not contain untrusted text.
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

/// A button that opens `url` in the browser.
pub(super) fn link(action_id: &str, text: &str, url: &str) -> Value {
    json!({ "type": "button", "action_id": action_id, "text": plain(text), "url": url })
}

/// A confirmation dialog that Slack shows before it sends a click.
pub(super) fn confirm(title: &str, text: &str, confirm: &str) -> Value {
    json!({ "title": plain(title), "text": plain(text), "confirm": plain(confirm), "deny": plain("Cancel") })
}
