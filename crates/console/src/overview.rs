//! The first page: what waits for people, and what happened last.

use axum::response::Html;
use domain::{RunRecord, RunStatus};
use maud::{Markup, html};
use store::{RunQuery, Store};

use crate::approvals;
use crate::at::Visitor;
use crate::layout::{self, Entry, Page, Stream};
use crate::no::No;
use crate::runs;

/// What fits on a screen, together.
const ROWS_MAX: u32 = 10;

pub(crate) async fn show<S: Store>(visitor: Visitor<S>) -> Result<Html<String>, No> {
    let handle = &visitor.handle;
    let asked = handle.open_approvals(None, ROWS_MAX).await?.approvals;
    let newest = RunQuery::newest(ROWS_MAX);
    let paused = RunQuery { status: Some(RunStatus::Paused), ..newest.clone() };
    let paused = handle.runs(paused).await?.runs;
    let last = handle.runs(newest).await?.runs;
    let live = html! {
        h2 { "What people are asked" }
        @if asked.is_empty() { p.soft { "Nothing." } } @else { (approvals::table(&asked, handle.now())) }
        (paused_runs(&paused, &visitor))
        h2 { "The last runs" }
        @if last.is_empty() {
            p.soft { "None yet. A run is started by a trigger of a " a href="/workflows" { "workflow" } ", or through the API." }
        } @else {
            (runs::table(&last, handle.now()))
            p { a href="/runs" { "All runs" } }
        }
    };
    let page = Page {
        title: "Overview",
        under: Entry::Overview,
        stream: Stream::Tenant,
        head: html! { h1 { "Overview" } },
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&visitor, &page).into_string()))
}

fn paused_runs<S: Store>(paused: &[RunRecord], visitor: &Visitor<S>) -> Markup {
    html! {
        @if !paused.is_empty() {
            h2 { "Paused, until somebody says how they go on" }
            (runs::table(paused, visitor.handle.now()))
        }
    }
}
