//! The list of runs: by status, record, time and a word of the workflow's name, page by page.

use std::fmt::Display;
use std::str::FromStr;

use api::{List, Problem};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::record_name::RECORD_BYTES_MAX;
use domain::{RecordName, RunRecord, RunStatus, Timestamp};
use maud::{Markup, html};
use serde::Deserialize;
use store::{Cursor, RunPage, RunQuery, Store};
use views::when::When;

use crate::Shared;
use crate::at::Visitor;
use crate::layout::{self, Entry, Page, Stream, encoded};
use crate::no::{No, notice};
use crate::pages;
use crate::text::{Seen, length, status, when};

/// What fits on a screen or two.
const ROWS_MAX: usize = 50;

/// There is no index by name, so a word is looked for in so many runs at a time; the rest is a click away.
const LOOKED_AT_MAX: usize = 500;

/// Longer than the name of any workflow.
const WORD_CHARS_MAX: usize = 128;

/// Longer than any moment is written.
const TIME_CHARS_MAX: usize = 40;

/// Which runs are wanted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    status: String,
    #[serde(default)]
    workflow: String,
    #[serde(default)]
    record: String,
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    before: String,
}

/// What somebody typed, if it is one; nothing, if they typed nothing.
fn typed<T: FromStr<Err: Display>>(what: &str, text: &str) -> Result<Option<T>, Problem> {
    let wrong = |error: T::Err| Problem::bad_request(format!("{what}: {error}"));
    let text = text.trim();
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(wrong) }
}

impl Wanted {
    fn word(&self) -> String {
        self.workflow.trim().chars().take(WORD_CHARS_MAX).collect::<String>().to_lowercase()
    }

    /// What is asked of the store, first of all. A filter that cannot be read is not passed over: it would show
    /// everything.
    fn first(&self, list: &List<'_>, now: Timestamp) -> Result<RunQuery, Problem> {
        let moment = |when: When| when.moment(now);
        Ok(RunQuery {
            status: typed::<RunStatus>("the status", &self.status)?,
            record: typed::<RecordName>("the record", &self.record)?,
            since: typed::<When>("since", &self.since)?.map(moment),
            until: typed::<When>("until", &self.until)?.map(moment),
            before: pages::opened(list, &self.before)?,
            limit: u32::try_from(ROWS_MAX).unwrap_or(u32::MAX),
        })
    }

    /// What it is filtered by, as the address says it.
    fn filters(&self) -> String {
        let filters = [
            ("status", &self.status),
            ("workflow", &self.workflow),
            ("record", &self.record),
            ("since", &self.since),
            ("until", &self.until),
        ];
        filters.map(|(name, value)| format!("{name}={}", encoded(value))).join("&")
    }

    fn next(&self, list: &List<'_>, cursor: &Cursor) -> String {
        format!("/runs?{}&before={}", self.filters(), list.seal(cursor))
    }
}

pub(crate) async fn list<S: Store>(
    State(console): State<Shared<S>>,
    visitor: Visitor<S>,
    asked: Result<Query<Wanted>, QueryRejection>,
) -> Result<Response, No> {
    let unread = asked.as_ref().err().map(|rejection| Problem::bad_request(rejection.body_text()));
    let wanted = asked.map(|Query(wanted)| wanted).unwrap_or_default();
    let list = pages::list(&console, &visitor, "console-runs", wanted.filters());
    let first = unread.map_or_else(|| wanted.first(&list, visitor.handle.now()), Err);
    let (found, refused) = match first {
        Ok(first) => (find(&visitor, &wanted.word(), first).await?, None),
        Err(problem) => (RunPage { runs: Vec::new(), next: None }, Some(problem)),
    };
    let live = html! {
        @if let Some(problem) = &refused { (notice(problem)) }
        @else if found.runs.is_empty() && found.next.is_some() { p.soft { "None of the newest runs fits that." } }
        @else if found.runs.is_empty() { p.soft { "No run fits that." } }
        @else { (table(&found.runs, visitor.handle.now())) }
        @if let Some(next) = &found.next { p.pages { a href=(wanted.next(&list, next)) rel="next" { "Older runs" } } }
    };
    // A page further down is about the past; only the first one is about now.
    let about_now = wanted.before.is_empty() && refused.is_none();
    let stream = if about_now { Stream::Tenant } else { Stream::None };
    let head = html! { h1 { "Runs" } (filters(&wanted)) };
    let page = Page { title: "Runs", under: Entry::Runs, stream, head, live, foot: html! {} };
    let status = refused.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(&visitor, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

async fn find<S: Store>(visitor: &Visitor<S>, word: &str, mut wanted: RunQuery) -> Result<RunPage, No> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    loop {
        let page = visitor.handle.runs(wanted.clone()).await?;
        looked_at += page.runs.len();
        found.extend(page.runs.into_iter().filter(|run| fits(run, word)));
        wanted.before = page.next;
        let enough = word.is_empty() || found.len() >= ROWS_MAX || looked_at >= LOOKED_AT_MAX;
        if enough || wanted.before.is_none() {
            return Ok(RunPage { runs: found, next: wanted.before });
        }
    }
}

fn fits(run: &RunRecord, word: &str) -> bool {
    run.workflow.as_str().to_lowercase().contains(word)
}

fn filters(wanted: &Wanted) -> Markup {
    let chosen: Option<RunStatus> = wanted.status.trim().parse().ok();
    html! {
        form.filters method="get" action="/runs" role="search" aria-label="Runs" {
            div {
                label for="status" { "Status" }
                select #status name="status" {
                    option value="" { "any" }
                    @for status in RunStatus::ALL {
                        option value=(status) selected[chosen == Some(status)] { (status.as_str().replace('_', " ")) }
                    }
                }
            }
            div {
                label for="workflow" { "Workflow" }
                input #workflow name="workflow" type="search" value=(wanted.workflow) maxlength=(WORD_CHARS_MAX)
                    placeholder="a part of its name";
            }
            div {
                label for="record" { "Record" }
                input #record name="record" type="search" value=(wanted.record) maxlength=(RECORD_BYTES_MAX)
                    placeholder="servicenow:incident:…" spellcheck="false";
            }
            (time("since", "Since", &wanted.since))
            (time("until", "Before", &wanted.until))
            button type="submit" { "Show" }
        }
    }
}

fn time(name: &str, label: &str, typed: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input id=(name) name=(name) type="search" value=(typed) maxlength=(TIME_CHARS_MAX)
                placeholder="2h, 3d or a moment" title="How long ago, as 30m, 2h or 3d, or a moment, as 2026-11-15T08:00:00Z"
                spellcheck="false";
        }
    }
}

/// Runs, one to a row; on a narrow screen, one to a card.
pub(crate) fn table(runs: &[RunRecord], now: Timestamp) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "Workflow" } th scope="col" { "Status" } th scope="col" { "Step" }
                th scope="col" { "About" } th scope="col" { "Started" } th scope="col" { "Took" } th scope="col" { "Run" }
            } }
            tbody { @for run in runs { tr {
                td data-label="Workflow" { a href={ "/runs/" (run.key.run) } { (run.workflow) } " " span.soft { "v" (run.workflow_version) } }
                td data-label="Status" { (status(run.status)) }
                td.number data-label="Step" { (run.at.index() + 1) " of " (run.steps) }
                td.long data-label="About" { @if let Some(record) = &run.trigger.record { (Seen(record.as_str())) } }
                td data-label="Started" { (when(run.created_at, now)) }
                td.number data-label="Took" { (length(run.duration())) }
                td data-label="Run" { code { (run.key.run) } }
            } } }
        }
    }
}
