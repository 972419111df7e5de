//! The modal in which a user starts a run, opened by a shortcut.
//!
//! The user sees the complete input of the run: for a message shortcut, the input field contains the message, with
//! invisible characters written as codes, and the user can edit it. The modal has no hidden data.

use std::fmt::Write as _;

use domain::WorkflowName;
use serde_json::{Value, json};

use crate::card::block;
use crate::escape::{self, TextLimit, is_invisible, units};
use crate::interaction::ShortcutMessage;

/// The global shortcut.
pub const START: &str = "countersign.start";
/// The message shortcut.
pub const ON_MESSAGE: &str = "countersign.start_on_message";

pub const CALLBACK_ID: &str = "countersign.start";
pub const WORKFLOW_BLOCK: &str = "workflow";
pub const WORKFLOW_NAME: &str = "name";
pub const INPUT_BLOCK: &str = "input";
pub const INPUT_TEXT: &str = "text";

/// Slack's limit for a text field.
pub const INPUT_UNITS_MAX: usize = 3_000;

/// Slack's limit for the options of a select.
const OPTIONS_MAX: usize = 100;
/// Slack's limit for the text and for the description of an option.
const OPTION_UNITS_MAX: usize = 75;
/// Fits under a field.
const ERROR_UNITS_MAX: usize = 300;

const TITLE: &str = "Start a run";

const ABOUT: &str = "You become the requester of the run, so you cannot approve its actions.";
const LIST_INCOMPLETE: &str = "This list is incomplete: Slack shows at most 100 workflows. To start another one, type /countersign start WORKFLOW.";
const INPUT_HINT: &str = "A JSON object such as {\"host\": \"db1\"}, or pairs such as host=db1";

/// The modal with a choice of `workflows`, and `message` in the input field.
pub fn render(workflows: &[WorkflowName], message: Option<&ShortcutMessage>) -> Value {
    if workflows.is_empty() {
        return notice("No workflow is applied.");
    }
    let about =
        if workflows.len() > OPTIONS_MAX { format!("{ABOUT} {LIST_INCOMPLETE}") } else { ABOUT.to_owned() };
    let mut view = notice(&about);
    view["submit"] = block::plain("Start");
    view["blocks"] = json!([block::section(&about), workflow_select(workflows), input_field(message)]);
    view
}

/// A modal that only shows a text.
pub fn notice(text: &str) -> Value {
    let text = escape::line(text, TextLimit::plain(block::SECTION_UNITS_MAX));
    json!({
        "type": "modal",
        "callback_id": CALLBACK_ID,
        "title": block::plain(TITLE),
        "close": block::plain("Cancel"),
        "blocks": [block::section(&text)],
    })
}

fn workflow_select(workflows: &[WorkflowName]) -> Value {
    let options: Vec<_> = workflows.iter().take(OPTIONS_MAX).map(option).collect();
    json!({
        "type": "input",
        "block_id": WORKFLOW_BLOCK,
        "label": block::plain("Workflow"),
        "element": { "type": "static_select", "action_id": WORKFLOW_NAME, "options": options },
    })
}

/// A name that does not fit into the text of an option continues in its description. Names are ASCII.
fn option(workflow: &WorkflowName) -> Value {
    let name = workflow.as_str();
    let (text, more) = name.split_at_checked(OPTION_UNITS_MAX).unwrap_or((name, ""));
    let mut option = json!({ "text": block::plain(text), "value": name });
    if !more.is_empty() {
        option["description"] = block::plain(more);
    }
    option
}

fn input_field(message: Option<&ShortcutMessage>) -> Value {
    let mut element = json!({
        "type": "plain_text_input",
        "action_id": INPUT_TEXT,
        "multiline": true,
        "max_length": INPUT_UNITS_MAX,
    });
    if let Some(message) = message {
        element["initial_value"] = json!(input_of(message));
    }
    json!({
        "type": "input",
        "block_id": INPUT_BLOCK,
        "optional": true,
        "label": block::plain("Input"),
        "hint": block::plain(INPUT_HINT),
        "element": element,
    })
}

/// The input of a run about `message`. A text that does not fit into the field is truncated, and the input has
/// `truncated: true`.
fn input_of(message: &ShortcutMessage) -> String {
    let whole = input_json(message, &message.text);
    if units(&whole) <= INPUT_UNITS_MAX {
        return whole;
    }
    let mut units_left = INPUT_UNITS_MAX.saturating_sub(units(&input_json(message, "")));
    let fits = |c: &char| {
        let left = units_left.checked_sub(width(*c));
        units_left = left.unwrap_or_default();
        left.is_some()
    };
    let fitting: String = message.text.chars().take_while(fits).collect();
    input_json(message, &fitting)
}

fn input_json(message: &ShortcutMessage, text: &str) -> String {
    let mut json = json!({ "channel": message.place.channel, "ts": message.place.ts, "text": text });
    if let Some(link) = &message.permalink {
        json["permalink"] = json!(link);
    }
    if text.len() < message.text.len() {
        json["truncated"] = json!(true);
    }
    escape_invisible(&format!("{:#}", json!({ "message": json })))
}

/// The length of `c` in the field.
fn width(c: char) -> usize {
    units(&escape_invisible(&json!(c).to_string())) - 2
}

/// Writes invisible characters of a JSON text as `\u` escapes, which does not change its meaning. Line breaks are kept:
/// in JSON they occur only between values.
fn escape_invisible(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_invisible(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _infallible = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

/// The response that keeps the modal open and shows `text` under the field of `block`.
pub fn field_error(block: &str, text: &str) -> String {
    let text = escape::line(text, TextLimit::plain(ERROR_UNITS_MAX));
    json!({ "response_action": "errors", "errors": { block: text } }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interaction::MessageRef;

    fn message(text: &str) -> ShortcutMessage {
        let place = MessageRef { channel: "C0123".to_owned(), ts: "1700000000.000100".to_owned() };
        let permalink = Some("https://acme.slack.com/archives/C0123/p1700000000000100".to_owned());
        ShortcutMessage { place, text: text.to_owned(), permalink }
    }

    fn workflows(count: usize) -> Vec<WorkflowName> {
        (0..count).map(|n| WorkflowName::new(&format!("w{n}")).unwrap()).collect()
    }

    #[test]
    fn input_contains_the_whole_message() {
        let input: Value = serde_json::from_str(&input_of(&message("db1 \"hangs\"\nagain"))).unwrap();
        let parsed = &input["message"];
        assert_eq!(parsed["text"], "db1 \"hangs\"\nagain");
        assert_eq!(parsed["channel"], "C0123");
        assert_eq!(parsed["ts"], "1700000000.000100");
        assert_eq!(parsed["permalink"], message("").permalink.unwrap());
        assert_eq!(parsed.get("truncated"), None);
    }

    #[test]
    fn invisible_characters_are_escaped_without_change() {
        let hidden = "a\u{202e}b\u{200b}c\u{e0041}\r\n";
        let input = input_of(&message(hidden));
        assert!(input.contains(r"a\u202eb\u200bc\udb40\udc41\r\n"), "{input}");
        let read: Value = serde_json::from_str(&input).unwrap();
        assert_eq!(read["message"]["text"], hidden);
    }

    #[test]
    fn long_message_is_cut_and_marked() {
        for text in ["x".repeat(40_000), "\u{202e}😀\"".repeat(9_000)] {
            let input = input_of(&message(&text));
            assert!((INPUT_UNITS_MAX - 12..=INPUT_UNITS_MAX).contains(&units(&input)), "{}", units(&input));
            let read: Value = serde_json::from_str(&input).unwrap();
            assert_eq!(read["message"]["truncated"], true);
            assert!(text.starts_with(read["message"]["text"].as_str().unwrap()));
        }
    }

    #[test]
    fn long_workflow_name_is_shown_whole() {
        for length in [1, 75, 76, domain::id::ID_BYTES_MAX] {
            let name = WorkflowName::new(&"w".repeat(length)).unwrap();
            let option = option(&name);
            let part = |name: &str| option[name]["text"].as_str().unwrap_or_default().to_owned();
            assert_eq!(part("text") + &part("description"), name.as_str());
            assert!(part("text").len() <= OPTION_UNITS_MAX && part("description").len() <= OPTION_UNITS_MAX);
            assert_eq!(option["value"], name.as_str());
        }
    }

    #[test]
    fn incomplete_list_is_announced() {
        let options = |view: &Value| view["blocks"][1]["element"]["options"].as_array().unwrap().len();
        let (few, many) = (render(&workflows(100), None), render(&workflows(101), None));
        assert_eq!((options(&few), options(&many)), (100, 100));
        assert!(!few.to_string().contains(LIST_INCOMPLETE) && many.to_string().contains(LIST_INCOMPLETE));
        assert!(render(&[], None).to_string().contains("No workflow is applied."));
    }
}
