//! The modal that asks for the reason of a rejection.

use domain::failure::MESSAGE_CHARS_MAX;
use serde_json::{Value, json};

use super::{ButtonToken, block};
use crate::escape::{self, TextLimit};
use crate::interaction::MessageRef;

/// Fits under a field.
const ERROR_UNITS_MAX: usize = 300;

pub const CALLBACK_ID: &str = "countersign.reject";
pub const REASON_BLOCK: &str = "reason";
pub const REASON_INPUT: &str = "text";

/// The modal for the approval of `token`, whose card is at `place`. Slack returns both with the reason; the user does not
/// see them.
pub fn reject_modal(token: &ButtonToken, place: &MessageRef) -> Value {
    let about = format!(
        "Run {}, hash {}. Operators of the run see your reason, and it becomes part of the evidence.",
        token.run.run,
        token.subject.short()
    );
    json!({
        "type": "modal",
        "callback_id": CALLBACK_ID,
        "private_metadata": format!("{token} {place}"),
        "title": block::plain("Reject"),
        "submit": block::plain("Reject"),
        "close": block::plain("Cancel"),
        "blocks": [block::section(&about), input()],
    })
}

fn input() -> Value {
    json!({
        "type": "input",
        "block_id": REASON_BLOCK,
        "label": block::plain("Reason"),
        "element": {
            "type": "plain_text_input",
            "action_id": REASON_INPUT,
            "multiline": true,
            "min_length": 1,
            "max_length": MESSAGE_CHARS_MAX,
        },
    })
}

/// The response that keeps the modal open and shows why the rejection does not count.
pub fn reject_error(text: &str) -> String {
    let text = escape::line(text, TextLimit::plain(ERROR_UNITS_MAX));
    json!({ "response_action": "errors", "errors": { REASON_BLOCK: text } }).to_string()
}
