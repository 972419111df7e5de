//! The inbox: what people are asked now, the oldest first.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::{Approval, Subject, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;
use store::{ApprovalPage, Store};

use crate::Shared;
use crate::at::{Visitor, Wish};
use crate::layout::{self, Entry, Page, Stream};
use crate::no::{No, notice};
use crate::pages;
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
    State(console): State<Shared<S>>,
    visitor: Visitor<S>,
    Wish(wanted): Wish<Wanted>,
) -> Result<Response, No> {
    let list = pages::list(&console, &visitor, "console-approvals", String::new());
    let (found, refused) = match pages::opened(&list, &wanted.after) {
        Ok(after) => (visitor.handle.open_approvals(after, ROWS_MAX).await?, None),
        Err(problem) => (ApprovalPage { approvals: Vec::new(), next: None }, Some(problem)),
    };
    let live = html! {
        @if let Some(problem) = &refused { (notice(problem)) }
        @else if found.approvals.is_empty() { p.soft { "Nobody is asked anything." } }
        @else { (table(&found.approvals, visitor.handle.now())) }
        @if let Some(next) = &found.next {
            p.pages { a href={ "/approvals?after=" (list.seal(next)) } rel="next" { "Newer requests" } }
        }
    };
    let page = Page {
        title: "Approvals",
        under: Entry::Approvals,
        stream: if refused.is_some() { Stream::None } else { Stream::Tenant },
        head: html! { h1 { "Approvals" } },
        live,
        foot: html! {},
    };
    let status = refused.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(&visitor, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
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
