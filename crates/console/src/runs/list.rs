//! The list of runs, filtered by status, record, time and part of the workflow's name.

use std::fmt::Display;
use std::str::FromStr;

use api::{ApiError, List};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::record_name::RECORD_BYTES_MAX;
use domain::{RecordName, RunRecord, RunStatus, Timestamp, WorkspaceId};
use maud::{Markup, html};
use serde::Deserialize;
use store::{Cursor, RunPage, RunQuery, Store};
use views::time_arg::TimeArg;

use crate::Shared;
use crate::extract::SessionUser;
use crate::layout::{self, MenuItem, Page, Stream, query_encoded};
use crate::page_error::{PageError, notice};
use crate::paging;
use crate::text::{InlineText, optional_duration, relative_time, status};

/// Two screens.
const ROWS_MAX: usize = 50;

/// There is no index by name, so one page scans this many runs for a word. The next page continues.
const SCANNED_MAX: usize = 500;

/// Longer than the name of any workflow.
const WORD_CHARS_MAX: usize = 128;

/// Longer than any timestamp.
const TIME_CHARS_MAX: usize = 40;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct RunsQuery {
    #[serde(default)]
    status: String,
    #[serde(default)]
    workflow: String,
    #[serde(default)]
    record: String,
    #[serde(default)]
    workspace: String,
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    #[serde(default)]
    before: String,
}

/// Parses a filter; an empty one is `None`.
fn parse_filter<T: FromStr<Err: Display>>(name: &str, text: &str) -> Result<Option<T>, ApiError> {
    let invalid = |error: T::Err| ApiError::bad_request(format!("{name}: {error}"));
    let text = text.trim();
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(invalid) }
}

impl RunsQuery {
    fn word(&self) -> String {
        self.workflow.trim().chars().take(WORD_CHARS_MAX).collect::<String>().to_lowercase()
    }

    /// The query for the store. An invalid filter is an error, because ignoring it would show all runs.
    fn to_query(&self, list: &List<'_>, now: Timestamp) -> Result<RunQuery, ApiError> {
        let resolve = |time: TimeArg| time.resolve(now);
        Ok(RunQuery {
            status: parse_filter::<RunStatus>("the status", &self.status)?,
            record: parse_filter::<RecordName>("the record", &self.record)?,
            workspace: parse_filter::<WorkspaceId>("the workspace", &self.workspace)?,
            since: parse_filter::<TimeArg>("since", &self.since)?.map(resolve),
            until: parse_filter::<TimeArg>("until", &self.until)?.map(resolve),
            before: paging::open_cursor(list, &self.before)?,
            limit: u32::try_from(ROWS_MAX).unwrap_or(u32::MAX),
        })
    }

    /// The filters as a URL query.
    fn filters(&self) -> String {
        let filters = [
            ("status", &self.status),
            ("workflow", &self.workflow),
            ("record", &self.record),
            ("workspace", &self.workspace),
            ("since", &self.since),
            ("until", &self.until),
        ];
        filters.map(|(name, value)| format!("{name}={}", query_encoded(value))).join("&")
    }

    fn next(&self, list: &List<'_>, cursor: &Cursor) -> String {
        format!("/runs?{}&before={}", self.filters(), list.encode_cursor(cursor))
    }
}

pub(crate) async fn list<S: Store>(
    State(console): State<Shared<S>>,
    user: SessionUser<S>,
    query: Result<Query<RunsQuery>, QueryRejection>,
) -> Result<Response, PageError> {
    let invalid = query.as_ref().err().map(|rejection| ApiError::bad_request(rejection.body_text()));
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let list = paging::list(&console, &user, "console-runs", query.filters());
    let store_query = invalid.map_or_else(|| query.to_query(&list, user.handle.now()), Err);
    let (found, error) = match store_query {
        Ok(store_query) => (find(&user, &query.word(), store_query).await?, None),
        Err(problem) => (RunPage { runs: Vec::new(), next: None }, Some(problem)),
    };
    let live = html! {
        @if let Some(problem) = &error { (notice(problem)) }
        @else if found.runs.is_empty() && found.next.is_some() { p.soft { "No match among the newest runs." } }
        @else if found.runs.is_empty() { p.soft { "No runs match." } }
        @else { (table(&found.runs, user.handle.now())) }
        @if let Some(next) = &found.next { p.pages { a href=(query.next(&list, next)) rel="next" { "Older runs" } } }
    };
    // Only the first page is updated; later pages show older runs.
    let is_first = query.before.is_empty() && error.is_none();
    let stream = if is_first { Stream::Tenant } else { Stream::None };
    let head = html! { h1 { "Runs" } (filters(&query)) };
    let page = Page { title: "Runs", menu_item: MenuItem::Runs, stream, head, live, foot: html! {} };
    let status = error.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(&user, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

async fn find<S: Store>(
    user: &SessionUser<S>,
    word: &str,
    mut query: RunQuery,
) -> Result<RunPage, PageError> {
    let (mut found, mut scanned) = (Vec::new(), 0);
    loop {
        let page = user.handle.runs(query.clone()).await?;
        scanned += page.runs.len();
        found.extend(page.runs.into_iter().filter(|run| matches_word(run, word)));
        query.before = page.next;
        let enough = word.is_empty() || found.len() >= ROWS_MAX || scanned >= SCANNED_MAX;
        if enough || query.before.is_none() {
            return Ok(RunPage { runs: found, next: query.before });
        }
    }
}

fn matches_word(run: &RunRecord, word: &str) -> bool {
    run.workflow.as_str().to_lowercase().contains(word)
}

fn filters(query: &RunsQuery) -> Markup {
    let chosen: Option<RunStatus> = query.status.trim().parse().ok();
    html! {
        form.filters method="get" action="/runs" role="search" aria-label="Runs" {
            div {
                label for="status" { "Status" }
                select #status name="status" {
                    option value="" { "any" }
                    @for &status in RunStatus::ALL {
                        option value=(status) selected[chosen == Some(status)] { (status.as_str().replace('_', " ")) }
                    }
                }
            }
            div {
                label for="workflow" { "Workflow" }
                input #workflow name="workflow" type="search" value=(query.workflow) maxlength=(WORD_CHARS_MAX)
                    placeholder="part of the name";
            }
            div {
                label for="record" { "Record" }
                input #record name="record" type="search" value=(query.record) maxlength=(RECORD_BYTES_MAX)
                    placeholder="servicenow:incident:…" spellcheck="false";
            }
            div {
                label for="workspace" { "Workspace" }
                input #workspace name="workspace" type="search" value=(query.workspace) maxlength=(WORD_CHARS_MAX)
                    placeholder="default" spellcheck="false";
            }
            (time("since", "Since", &query.since))
            (time("until", "Before", &query.until))
            button type="submit" { "Filter" }
        }
    }
}

fn time(name: &str, label: &str, value: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input id=(name) name=(name) type="search" value=(value) maxlength=(TIME_CHARS_MAX)
                placeholder="2h, 3d or a time" title="A duration ago, such as 30m, 2h or 3d, or a time, such as 2026-11-15T08:00:00Z"
                spellcheck="false";
        }
    }
}

/// One row per run; one card per run on a narrow screen.
pub(crate) fn table(runs: &[RunRecord], now: Timestamp) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "Workflow" } th scope="col" { "Status" } th scope="col" { "Step" }
                th scope="col" { "Record" } th scope="col" { "Started" } th scope="col" { "Duration" } th scope="col" { "Run" }
            } }
            tbody { @for run in runs { tr {
                td data-label="Workflow" { a href={ "/runs/" (run.key.run) } { (run.workflow) } " " span.soft { "v" (run.workflow_version) } }
                td data-label="Status" { (status(run.status)) }
                td.number data-label="Step" { (run.at.index() + 1) " of " (run.steps) }
                td.long data-label="Record" { @if let Some(record) = &run.trigger.record { (InlineText(record.as_str())) } }
                td data-label="Started" { (relative_time(run.created_at, now)) }
                td.number data-label="Duration" { (optional_duration(run.duration())) }
                td data-label="Run" { code { (run.key.run) } }
            } } }
        }
    }
}
