//! The approval card. It is rendered from the blocks of the Slack message, without Slack's limits, so both show the same content.

use domain::Approval;
use maud::{Markup, html};
use serde_json::Value;
use slack::card;
use views::time::timestamp;

use crate::text::CardText;

/// The card of `approval`, without its buttons.
pub(super) fn card(approval: &Approval) -> Markup {
    let card = card::render_whole(approval);
    let blocks = card["blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        article.card aria-label="Approval request" {
            @for block in blocks { (block_markup(block)) }
            p.soft {
                "Requested " (timestamp(approval.requested_at)) " · due " (timestamp(approval.sla_at))
                " · expires " (timestamp(approval.expires_at))
            }
        }
    }
}

/// The confirmation text for an action that is hard to undo.
pub(super) fn warning(approval: &Approval) -> Option<String> {
    let card = card::render_whole(approval);
    let blocks = card["blocks"].as_array()?;
    let mut buttons = blocks.iter().filter_map(|block| block["elements"].as_array()).flatten();
    buttons.find_map(|button| button["confirm"]["text"]["text"].as_str()).map(plain)
}

fn block_markup(block: &Value) -> Markup {
    let fields = block["fields"].as_array();
    html! {
        @match (block["type"].as_str(), fields) {
            (Some("header"), _) => h2 { (CardText(&text(&block["text"]))) },
            (Some("section"), Some(fields)) => dl.facts {
                @for field in fields {
                    @let text = text(field);
                    @let (name, value) = text.split_once('\n').unwrap_or((text.as_str(), ""));
                    div { dt { (CardText(name)) } dd { (CardText(value)) } }
                }
            },
            (Some("section"), None) => (paragraph(&text(&block["text"]))),
            _ => {}
        }
    }
}

/// A text whose first line is a label.
fn paragraph(text: &str) -> Markup {
    html! {
        @match text.split_once('\n') {
            Some((label, rest)) => p.lines { span.label { (CardText(label)) } (CardText(rest)) },
            None => p.lines { (CardText(text)) },
        }
    }
}

fn text(element: &Value) -> String {
    plain(element["text"].as_str().unwrap_or_default())
}

/// Removes Slack's escapes. The page escapes the text again by its own rules.
fn plain(escaped: &str) -> String {
    escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_text_is_escaped_once() {
        let block = serde_json::json!({
            "type": "section", "text": { "text": "Note\na⟨U+200B⟩b &lt;b&gt; &amp;amp;" },
        });
        let shown = block_markup(&block).into_string();
        assert!(shown.contains("a⟨U+200B⟩b &lt;b&gt; &amp;amp;"), "{shown}");
    }
}
