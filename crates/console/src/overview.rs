//! The first page: pending approvals, paused runs and recent runs.

use axum::response::Html;
use domain::{RunRecord, RunStatus};
use maud::{Markup, html};
use store::{RunQuery, Store};

use crate::approvals;
use crate::extract::SessionUser;
use crate::layout::{self, MenuItem, Page, Stream};
use crate::page_error::PageError;
use crate::runs;

/// The sections fit on one screen together.
const ROWS_MAX: u32 = 10;

pub(crate) async fn show<S: Store>(user: SessionUser<S>) -> Result<Html<String>, PageError> {
    let handle = &user.handle;
    let pending = handle.open_approvals(None, ROWS_MAX).await?.approvals;
    let newest = RunQuery::newest(ROWS_MAX);
    let paused = RunQuery { status: Some(RunStatus::Paused), ..newest.clone() };
    let paused = handle.runs(paused).await?.runs;
    let recent = handle.runs(newest).await?.runs;
    let live = html! {
        h2 { "Pending approvals" }
        @if pending.is_empty() { p.soft { "No pending approvals." } } @else { (approvals::table(&pending, handle.now())) }
        (paused_runs(&paused, &user))
        h2 { "Recent runs" }
        @if recent.is_empty() {
            p.soft { "No runs yet. Start one from a " a href="/workflows" { "workflow" } ", by its trigger, or with the API." }
        } @else {
            (runs::table(&recent, handle.now()))
            p { a href="/runs" { "All runs" } }
        }
    };
    let page = Page {
        title: "Overview",
        menu_item: MenuItem::Overview,
        stream: Stream::Tenant,
        head: html! { h1 { "Overview" } },
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&user, &page).into_string()))
}

fn paused_runs<S: Store>(paused: &[RunRecord], user: &SessionUser<S>) -> Markup {
    html! {
        @if !paused.is_empty() {
            h2 { "Paused runs" }
            (runs::table(paused, user.handle.now()))
        }
    }
}
