//! Slack's limits for blocks.

use serde_json::Value;

const INVALID: &str = "invalid_blocks";

/// All texts together. Slack does not document its limit; messages of 9,597 are known to pass.
const MESSAGE_UNITS_MAX: usize = 9_600;

/// Returns Slack's error code for blocks that Slack would reject.
pub(super) fn check(blocks: &Value) -> Result<(), &'static str> {
    let blocks = blocks.as_array().ok_or(INVALID)?;
    if blocks.is_empty() || blocks.len() > 50 {
        return Err(INVALID);
    }
    blocks.iter().try_for_each(block)?;
    let all: usize = blocks.iter().map(all_texts).sum();
    if all <= MESSAGE_UNITS_MAX { Ok(()) } else { Err("msg_blocks_too_long") }
}

fn block(block: &Value) -> Result<(), &'static str> {
    match block["type"].as_str() {
        Some("header") => plain(&block["text"], 150),
        Some("section") => section(block),
        Some("context") => each(&block["elements"], 10, |element| text(element, 2_000)),
        Some("actions") => each(&block["elements"], 25, button),
        Some("divider") => Ok(()),
        Some("input") => input(block),
        Some(_) | None => Err(INVALID),
    }
}

fn input(block: &Value) -> Result<(), &'static str> {
    plain(&block["label"], 2_000)?;
    block.get("hint").map_or(Ok(()), |hint| plain(hint, 2_000))?;
    let element = &block["element"];
    match element["type"].as_str() {
        Some("static_select") => each(&element["options"], 100, option),
        _ => element.get("initial_value").map_or(Ok(()), |text| within(text, 3_000)),
    }
}

fn option(option: &Value) -> Result<(), &'static str> {
    plain(&option["text"], 75)?;
    within(&option["value"], 150)
}

fn section(block: &Value) -> Result<(), &'static str> {
    match (block.get("text"), block.get("fields")) {
        (None, None) => Err(INVALID),
        (shown, fields) => {
            shown.map_or(Ok(()), |shown| text(shown, 3_000))?;
            fields.map_or(Ok(()), |fields| each(fields, 10, |field| text(field, 2_000)))
        }
    }
}

fn each(
    elements: &Value,
    max: usize,
    check: impl Fn(&Value) -> Result<(), &'static str>,
) -> Result<(), &'static str> {
    match elements.as_array() {
        Some(elements) if (1..=max).contains(&elements.len()) => elements.iter().try_for_each(check),
        Some(_) | None => Err(INVALID),
    }
}

fn button(button: &Value) -> Result<(), &'static str> {
    plain(&button["text"], 75)?;
    within(&button["value"], 2_000)?;
    within(&button["action_id"], 255)?;
    let Some(confirm) = button.get("confirm") else { return Ok(()) };
    [("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)]
        .iter()
        .try_for_each(|(part, max)| plain(&confirm[part], *max))
}

/// Checks a view's texts and blocks.
pub(super) fn check_view(view: &Value) -> Result<(), &'static str> {
    let blocks = check(&view["blocks"]);
    let titles = ["title", "close"].iter().try_for_each(|part| plain(&view[part], 24));
    let asks = view["blocks"].as_array().into_iter().flatten().any(|block| block["type"] == "input");
    let submit = if asks || view.get("submit").is_some() { plain(&view["submit"], 24) } else { Ok(()) };
    let titles = titles.and(submit);
    let carried = view.get("private_metadata").map_or(Ok(()), |carried| within(carried, 3_000));
    if view["type"] == "modal" && blocks.and(titles).and(carried).is_ok() {
        Ok(())
    } else {
        Err("invalid_arguments")
    }
}

fn plain(object: &Value, max: usize) -> Result<(), &'static str> {
    if object["type"] == "plain_text" { text(object, max) } else { Err(INVALID) }
}

fn text(object: &Value, max: usize) -> Result<(), &'static str> {
    match object["type"].as_str() {
        Some("plain_text" | "mrkdwn") => within(&object["text"], max),
        Some(_) | None => Err(INVALID),
    }
}

fn within(text: &Value, max: usize) -> Result<(), &'static str> {
    match text.as_str().map(units) {
        Some(units) if (1..=max).contains(&units) => Ok(()),
        Some(_) | None => Err(INVALID),
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

fn all_texts(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(all_texts).sum(),
        Value::Object(fields) => {
            let own = fields.get("text").and_then(Value::as_str).map_or(0, units);
            own + fields.values().map(all_texts).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn section_of(chars: usize) -> Value {
        json!({ "type": "section", "text": { "type": "plain_text", "text": "x".repeat(chars) } })
    }

    #[test]
    fn section_has_at_most_3000_characters() {
        assert_eq!(check(&json!([section_of(3_000)])), Ok(()));
        assert_eq!(check(&json!([section_of(3_001)])), Err("invalid_blocks"));
        assert_eq!(check(&json!([section_of(0)])), Err("invalid_blocks"));
    }

    #[test]
    fn message_size_is_limited() {
        assert_eq!(check(&Value::Array(vec![section_of(10); 50])), Ok(()));
        assert_eq!(check(&Value::Array(vec![section_of(10); 51])), Err("invalid_blocks"));
        assert_eq!(check(&Value::Array(vec![section_of(3_000); 4])), Err("msg_blocks_too_long"));
    }
}
