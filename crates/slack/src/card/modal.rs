//! The window in which whoever says no says why.

use domain::failure::MESSAGE_CHARS_MAX;
use serde_json::{Value, json};

use super::{Token, block};
use crate::escape::{self, Bound};
use crate::interaction::Place;

/// What fits under a field.
const REFUSED_UNITS_MAX: usize = 300;

/// Names the window.
pub const CALLBACK_ID: &str = "countersign.reject";
/// The block that holds the reason.
pub const REASON_BLOCK: &str = "reason";
/// The input in that block.
pub const REASON_INPUT: &str = "text";

/// The window for the approval of `token`, whose card stands at `place`. Slack hands both back with the
/// reason, unseen by whoever types it.
pub fn modal(token: &Token, place: &Place) -> Value {
    let about = format!(
        "Run {}, hash {}. Whoever runs it reads what you write here, and the evidence keeps it.",
        token.run.run,
        token.subject.short()
    );
    json!({
        "type": "modal",
        "callback_id": CALLBACK_ID,
        "private_metadata": format!("{token} {place}"),
        "title": block::plain("Reject"),
        "submit": block::plain("Reject"),
        "close": block::plain("Back"),
        "blocks": [block::section(&about), input()],
    })
}

fn input() -> Value {
    json!({
        "type": "input",
        "block_id": REASON_BLOCK,
        "label": block::plain("Why not?"),
        "element": {
            "type": "plain_text_input",
            "action_id": REASON_INPUT,
            "multiline": true,
            "min_length": 1,
            "max_length": MESSAGE_CHARS_MAX,
        },
    })
}

/// What a window is answered with when a no does not count: it stays open and shows why, under the reason.
pub fn refused(words: &str) -> String {
    let words = escape::line(words, Bound::plain(REFUSED_UNITS_MAX));
    json!({ "response_action": "errors", "errors": { REASON_BLOCK: words } }).to_string()
}
