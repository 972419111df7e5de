//! The window in which somebody asks for a run, opened by a shortcut.
//!
//! Whoever sends it off sees all that the run gets: what a message says stands in the field for the input, where
//! they can change it, and what nobody can see in it is written out. The window carries nothing else. Slack hands back
//! unchanged what a window hides (`private_metadata`, 3,000 characters), but only the id of the window, who sent it
//! off and what they entered are Slack's own word.

use std::fmt::Write as _;

use domain::WorkflowName;
use serde_json::{Value, json};

use crate::card::block;
use crate::escape::{self, Bound, is_unseen, units};
use crate::interaction::Said;

/// The shortcut that is found everywhere.
pub const START: &str = "countersign.start";
/// The shortcut on a message.
pub const ON_MESSAGE: &str = "countersign.start_on_message";

/// Names the window.
pub const CALLBACK_ID: &str = "countersign.start";
/// The block that holds the workflow.
pub const WORKFLOW_BLOCK: &str = "workflow";
/// The choice in that block.
pub const WORKFLOW_NAME: &str = "name";
/// The block that holds the input.
pub const INPUT_BLOCK: &str = "input";
/// The field in that block.
pub const INPUT_TEXT: &str = "text";

/// What Slack lets people type into a field.
pub const INPUT_UNITS_MAX: usize = 3_000;

/// What Slack lets people choose from.
const OPTIONS_MAX: usize = 100;
/// The text of an option.
const OPTION_UNITS_MAX: usize = 75;
/// What fits under a field.
const REFUSED_UNITS_MAX: usize = 300;

const TITLE: &str = "Start a run";

const ABOUT: &str = "You are the requester of the run, and cannot approve what it does.";
const MORE: &str = "More workflows are in use than fit here; /countersign start WORKFLOW starts any of them.";
const EXPLAINED: &str = "A JSON object such as {\"host\": \"db1\"}, or words such as host=db1";

/// The window that offers `workflows`, with what `said` says in the input.
pub fn offer(workflows: &[WorkflowName], said: Option<&Said>) -> Value {
    if workflows.is_empty() {
        return notice("No workflow is in use.");
    }
    let about = if workflows.len() > OPTIONS_MAX { format!("{ABOUT} {MORE}") } else { ABOUT.to_owned() };
    let mut view = notice(&about);
    view["submit"] = block::plain("Start");
    view["blocks"] = json!([block::section(&about), choice(workflows), field(said)]);
    view
}

/// A window that only says something.
pub fn notice(words: &str) -> Value {
    let words = escape::line(words, Bound::plain(block::SECTION_UNITS_MAX));
    json!({
        "type": "modal",
        "callback_id": CALLBACK_ID,
        "title": block::plain(TITLE),
        "close": block::plain("Back"),
        "blocks": [block::section(&words)],
    })
}

fn choice(workflows: &[WorkflowName]) -> Value {
    let options: Vec<_> = workflows.iter().take(OPTIONS_MAX).map(option).collect();
    json!({
        "type": "input",
        "block_id": WORKFLOW_BLOCK,
        "label": block::plain("Workflow"),
        "element": { "type": "static_select", "action_id": WORKFLOW_NAME, "options": options },
    })
}

fn option(workflow: &WorkflowName) -> Value {
    let shown = escape::line(workflow.as_str(), Bound::plain(OPTION_UNITS_MAX));
    json!({ "text": block::plain(&shown), "value": workflow.as_str() })
}

fn field(said: Option<&Said>) -> Value {
    let mut element = json!({
        "type": "plain_text_input",
        "action_id": INPUT_TEXT,
        "multiline": true,
        "max_length": INPUT_UNITS_MAX,
    });
    if let Some(said) = said {
        element["initial_value"] = json!(input_of(said));
    }
    json!({
        "type": "input",
        "block_id": INPUT_BLOCK,
        "optional": true,
        "label": block::plain("Input"),
        "hint": block::plain(EXPLAINED),
        "element": element,
    })
}

/// The input of a run about `said`, within what fits into the field. A text that does not is cut, and the input
/// says so.
fn input_of(said: &Said) -> String {
    let whole = written(said, &said.text);
    if units(&whole) <= INPUT_UNITS_MAX {
        return whole;
    }
    let mut room = INPUT_UNITS_MAX.saturating_sub(units(&written(said, "")));
    let fits = |c: &char| {
        let left = room.checked_sub(width(*c));
        room = left.unwrap_or_default();
        left.is_some()
    };
    let kept: String = said.text.chars().take_while(fits).collect();
    written(said, &kept)
}

fn written(said: &Said, text: &str) -> String {
    let mut message = json!({ "channel": said.place.channel, "ts": said.place.ts, "text": text });
    if let Some(link) = &said.permalink {
        message["permalink"] = json!(link);
    }
    if text.len() < said.text.len() {
        message["cut"] = json!(true);
    }
    seen(&format!("{:#}", json!({ "message": message })))
}

/// What `c` takes in the field.
fn width(c: char) -> usize {
    units(&seen(&json!(c).to_string())) - 2
}

/// JSON in which everything can be seen and that means the same. Line breaks in it are between values: JSON writes
/// those of a text out by itself.
fn seen(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_unseen(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _infallible = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

/// What the window is answered with when nothing is started: it stays open and shows why, under the field of
/// `block`.
pub fn refused(block: &str, words: &str) -> String {
    let words = escape::line(words, Bound::plain(REFUSED_UNITS_MAX));
    json!({ "response_action": "errors", "errors": { block: words } }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interaction::Place;

    fn said(text: &str) -> Said {
        let place = Place { channel: "C0123".to_owned(), ts: "1700000000.000100".to_owned() };
        let permalink = Some("https://acme.slack.com/archives/C0123/p1700000000000100".to_owned());
        Said { place, text: text.to_owned(), permalink }
    }

    fn workflows(count: usize) -> Vec<WorkflowName> {
        (0..count).map(|n| WorkflowName::new(&format!("w{n}")).unwrap()).collect()
    }

    #[test]
    fn the_input_of_a_message_is_all_of_it() {
        let input: Value = serde_json::from_str(&input_of(&said("db1 \"hangs\"\nagain"))).unwrap();
        let message = &input["message"];
        assert_eq!(message["text"], "db1 \"hangs\"\nagain");
        assert_eq!(message["channel"], "C0123");
        assert_eq!(message["ts"], "1700000000.000100");
        assert_eq!(message["permalink"], said("").permalink.unwrap());
        assert_eq!(message.get("cut"), None);
    }

    #[test]
    fn what_nobody_can_see_in_a_message_is_written_out_and_means_the_same() {
        let hidden = "a\u{202e}b\u{200b}c\u{e0041}\r\n";
        let input = input_of(&said(hidden));
        assert!(input.contains(r"a\u202eb\u200bc\udb40\udc41\r\n"), "{input}");
        let read: Value = serde_json::from_str(&input).unwrap();
        assert_eq!(read["message"]["text"], hidden);
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_and_says_so() {
        for text in ["x".repeat(40_000), "\u{202e}😀\"".repeat(9_000)] {
            let input = input_of(&said(&text));
            assert!((INPUT_UNITS_MAX - 12..=INPUT_UNITS_MAX).contains(&units(&input)), "{}", units(&input));
            let read: Value = serde_json::from_str(&input).unwrap();
            assert_eq!(read["message"]["cut"], true);
            assert!(text.starts_with(read["message"]["text"].as_str().unwrap()));
        }
    }

    #[test]
    fn more_workflows_than_slack_shows_are_owned_up_to() {
        let options = |view: &Value| view["blocks"][1]["element"]["options"].as_array().unwrap().len();
        let (few, many) = (offer(&workflows(100), None), offer(&workflows(101), None));
        assert_eq!((options(&few), options(&many)), (100, 100));
        assert!(!few.to_string().contains(MORE) && many.to_string().contains(MORE));
        assert!(offer(&[], None).to_string().contains("No workflow is in use."));
    }
}
