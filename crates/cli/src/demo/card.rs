//! A Slack message rendered as text, with its buttons.

use fakes::slack::FakeMessage;
use serde_json::Value;

use views::table::{indented, wrapped};

/// The width of a line without the frame.
const WIDTH: usize = 88;

/// The width of the column of field names.
const NAME_WIDTH: usize = 24;

/// The message with a vertical line on its left.
pub(super) fn text(message: &FakeMessage) -> String {
    let blocks = message.blocks.as_array().map(Vec::as_slice).unwrap_or_default();
    let lines: String = blocks.iter().map(block).collect();
    lines.lines().map(|line| format!("│ {line}").trim_end().to_owned() + "\n").collect()
}

fn block(block: &Value) -> String {
    match block["type"].as_str() {
        Some("header") => format!("{}\n\n", plain_text(&block["text"])),
        Some("divider") => String::new(),
        Some("actions") => {
            format!("{}\n", elements_text(block, "elements", |button| format!("[ {button} ]  ")))
        }
        Some("context") => elements_text(block, "elements", |small| wrapped(small, WIDTH)) + "\n",
        _ if block["fields"].is_array() => elements_text(block, "fields", field) + "\n",
        _ => paragraph(&plain_text(&block["text"])),
    }
}

fn elements_text(block: &Value, part: &str, render: impl Fn(&str) -> String) -> String {
    let texts = block[part].as_array().into_iter().flatten();
    texts.map(|text| render(&plain_text(text.get("elements").unwrap_or(text)))).collect()
}

/// `Name      value`, with an indent on wrapped lines of the value.
fn field(text: &str) -> String {
    let (name, value) = text.split_once('\n').unwrap_or((text, ""));
    let value = wrapped(value, WIDTH - NAME_WIDTH);
    let line = |(number, line)| format!("{:NAME_WIDTH$}{line}\n", if number == 0 { name } else { "" });
    value.lines().enumerate().map(line).collect()
}

/// A title with indented lines below it, or one line.
fn paragraph(text: &str) -> String {
    let mut lines = text.lines();
    let first = wrapped(lines.next().unwrap_or_default(), WIDTH);
    let below: String = lines.map(|line| indented(&wrapped(line, WIDTH - 4), 2)).collect();
    let gap = if below.is_empty() { "" } else { "\n" };
    format!("{first}{below}{gap}")
}

/// The text as Slack shows it: without escapes, and with the fallback text of dates.
fn plain_text(text: &Value) -> String {
    let text = text["text"].as_str().or_else(|| text["text"]["text"].as_str()).unwrap_or_default();
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, date)) = rest.split_once("<!date^") {
        let (date, after) = date.split_once('>').unwrap_or((date, ""));
        shown.push_str(before);
        shown.push_str(date.rsplit_once('|').map_or(date, |(_, fallback)| fallback));
        rest = after;
    }
    shown.push_str(rest);
    shown.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn card_shows_fields_changes_and_buttons() {
        let plain = |text: &str| json!({ "type": "plain_text", "text": text });
        let message = FakeMessage {
            channel: "C1".into(),
            ts: "1.1".into(),
            thread: None,
            text: String::new(),
            blocks: json!([
                { "type": "header", "text": plain("Approval needed") },
                { "type": "section", "fields": [plain("Step\nassign")] },
                { "type": "section", "text": plain("urgency: \"2\" → \"1\"") },
                { "type": "section", "text": plain("Why\n• a &amp; b") },
                { "type": "actions", "elements": [{ "text": plain("Approve") }, { "text": plain("Reject…") }] },
            ]),
            metadata: json!(null),
            edits: 0,
        };
        assert_eq!(
            text(&message),
            "│ Approval needed\n│\n│ Step                    assign\n│\n│ urgency: \"2\" → \"1\"\n│ Why\n│   • a & b\n│\n\
             │ [ Approve ]  [ Reject… ]\n"
        );
    }
}
