//! The pending approvals, oldest first.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::{Approval, Subject, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;
use store::{ApprovalPage, Store};

use crate::Shared;
use crate::extract::{QueryParams, SessionUser};
use crate::layout::{self, MenuItem, Page, Stream};
use crate::page_error::{PageError, notice};
use crate::paging;
use crate::text::{InlineText, relative_time};

/// Two screens.
const ROWS_MAX: u32 = 50;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ApprovalsQuery {
    #[serde(default)]
    after: String,
}

pub(crate) async fn list<S: Store>(
    State(console): State<Shared<S>>,
    user: SessionUser<S>,
    QueryParams(query): QueryParams<ApprovalsQuery>,
) -> Result<Response, PageError> {
    let list = paging::list(&console, &user, "console-approvals", String::new());
    let (page, error) = match paging::open_cursor(&list, &query.after) {
        Ok(after) => (user.handle.open_approvals(after, ROWS_MAX).await?, None),
        Err(problem) => (ApprovalPage { approvals: Vec::new(), next: None }, Some(problem)),
    };
    let live = html! {
        @if let Some(problem) = &error { (notice(problem)) }
        @else if page.approvals.is_empty() { p.soft { "No pending approvals." } }
        @else { (table(&page.approvals, user.handle.now())) }
        @if let Some(next) = &page.next {
            p.pages { a href={ "/approvals?after=" (list.encode_cursor(next)) } rel="next" { "Newer approvals" } }
        }
    };
    let page = Page {
        title: "Approvals",
        menu_item: MenuItem::Approvals,
        stream: if error.is_some() { Stream::None } else { Stream::Tenant },
        head: html! { h1 { "Approvals" } },
        live,
        foot: html! {},
    };
    let status = error.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(&user, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

/// One row per approval; one card per approval on a narrow screen.
pub(crate) fn table(approvals: &[Approval], now: Timestamp) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "Request" } th scope="col" { "Requested" }
                th scope="col" { "Due" } th scope="col" { "Expires" }
            } }
            tbody { @for approval in approvals { tr {
                td data-label="Step" { a href={ "/approvals/" (approval.id) } { (approval.workflow) ": " (approval.step) } }
                td.long data-label="Request" { (InlineText(&subject(approval))) }
                td data-label="Requested" { (relative_time(approval.requested_at, now)) }
                td data-label="Due" { (relative_time(approval.sla_at, now)) }
                td data-label="Expires" { (relative_time(approval.expires_at, now)) }
            } } }
        }
    }
}

fn subject(approval: &Approval) -> String {
    match &approval.subject {
        Subject::Question { message } => message.clone(),
        Subject::Action { action, .. } => {
            let changed: Vec<&str> = action.changes.iter().map(|change| change.field.as_str()).collect();
            let prefix = if approval.rollback { "Roll back: " } else { "" };
            let fields = if changed.is_empty() { String::new() } else { format!(": {}", changed.join(", ")) };
            format!("{prefix}{} on {}{fields}", action.tool, action.target)
        }
    }
}
