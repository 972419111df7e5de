//! The inbox: what people are asked now, the oldest first.

use axum::response::Html;
use domain::{Approval, Subject, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;
use store::{Cursor, Store};

use crate::at::{Visitor, Wish};
use crate::layout::{self, Entry, Page, Stream, encoded};
use crate::no::No;
use crate::text::{Seen, when};

/// What fits on a screen or two.
const ROWS_MAX: u32 = 50;

/// Which requests are wanted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    after: String,
}

pub(crate) async fn list<S: Store>(
    visitor: Visitor<S>,
    Wish(wanted): Wish<Wanted>,
) -> Result<Html<String>, No> {
    let after = (!wanted.after.is_empty()).then(|| Cursor::new(wanted.after.as_str()));
    let found = visitor.desk.open_approvals(after, ROWS_MAX).await?;
    let live = html! {
        @if found.approvals.is_empty() { p.soft { "Nobody is asked anything." } } @else { (table(&found.approvals, visitor.desk.now())) }
        @if let Some(next) = &found.next {
            p.pages { a href={ "/approvals?after=" (encoded(next.as_str())) } rel="next" { "Newer requests" } }
        }
    };
    let page = Page {
        title: "Approvals",
        under: Entry::Approvals,
        stream: Stream::Tenant,
        head: html! { h1 { "Approvals" } },
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&visitor, &page).into_string()))
}

/// Requests, one to a row; on a narrow screen, one to a card.
pub(crate) fn table(approvals: &[Approval], now: Timestamp) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "What is asked" } th scope="col" { "Asked" }
                th scope="col" { "Due" } th scope="col" { "Lapses" }
            } }
            tbody { @for approval in approvals { tr {
                td data-label="Step" { a href={ "/approvals/" (approval.id) } { (approval.workflow) ": " (approval.step) } }
                td.long data-label="What is asked" { (Seen(&asks(approval))) }
                td data-label="Asked" { (when(approval.asked_at, now)) }
                td data-label="Due" { (when(approval.sla_at, now)) }
                td data-label="Lapses" { (when(approval.expires_at, now)) }
            } } }
        }
    }
}

fn asks(approval: &Approval) -> String {
    match &approval.subject {
        Subject::Question { message } => message.clone(),
        Subject::Action { action, .. } => {
            let changed: Vec<&str> = action.changes.iter().map(|change| change.field.as_str()).collect();
            let undo = if approval.undo { "Take back: " } else { "" };
            let fields = if changed.is_empty() { String::new() } else { format!(": {}", changed.join(", ")) };
            format!("{undo}{} on {}{fields}", action.tool, action.target)
        }
    }
}
