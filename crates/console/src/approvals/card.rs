//! The card: what Slack shows of a request, as a page shows it.
//!
//! It is made from the very blocks that Slack is given, so that people are told the same wherever they look.

use domain::Approval;
use maud::{Markup, html};
use serde_json::Value;
use slack::card;
use views::time::moment;

use crate::text::Lines;

/// The card of `approval`, without its buttons.
pub(super) fn drawn(approval: &Approval) -> Markup {
    let card = card::render(approval);
    let blocks = card["blocks"].as_array().map(Vec::as_slice).unwrap_or_default();
    html! {
        article.card aria-label="The request" {
            @for block in blocks { (drawn_block(block)) }
            p.soft {
                "Asked " (moment(approval.asked_at)) " · answer due " (moment(approval.sla_at))
                " · lapses " (moment(approval.expires_at))
            }
        }
    }
}

/// What is asked twice about, because a yes is hard to make good again.
pub(super) fn warning(approval: &Approval) -> Option<String> {
    let card = card::render(approval);
    let blocks = card["blocks"].as_array()?;
    let mut buttons = blocks.iter().filter_map(|block| block["elements"].as_array()).flatten();
    buttons.find_map(|button| button["confirm"]["text"]["text"].as_str()).map(plain)
}

fn drawn_block(block: &Value) -> Markup {
    let fields = block["fields"].as_array();
    html! {
        @match (block["type"].as_str(), fields) {
            (Some("header"), _) => h2 { (Lines(&text(&block["text"]))) },
            (Some("section"), Some(fields)) => dl.facts {
                @for field in fields {
                    @let said = text(field);
                    @let (name, value) = said.split_once('\n').unwrap_or((said.as_str(), ""));
                    div { dt { (Lines(name)) } dd { (Lines(value)) } }
                }
            },
            (Some("section"), None) => (paragraph(&text(&block["text"]))),
            _ => {}
        }
    }
}

/// A text whose first line says what the others are about.
fn paragraph(said: &str) -> Markup {
    html! {
        @match said.split_once('\n') {
            Some((about, rest)) => p.lines { span.label { (Lines(about)) } (Lines(rest)) },
            None => p.lines { (Lines(said)) },
        }
    }
}

fn text(element: &Value) -> String {
    plain(element["text"].as_str().unwrap_or_default())
}

/// What Slack would show of an escaped text. It is escaped again for the page, by the page's rules.
fn plain(escaped: &str) -> String {
    escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
