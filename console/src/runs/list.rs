//! The list of runs: by status, by a word of the workflow's name, page by page.

use axum::response::Html;
use domain::{RunRecord, RunStatus, Timestamp};
use engine::RunsWanted;
use maud::{Markup, html};
use serde::Deserialize;
use store::{Cursor, RunPage, Store};

use crate::at::{Visitor, Wish};
use crate::layout::{self, Entry, Page, Stream, encoded};
use crate::no::No;
use crate::text::{length, status, when};

/// What fits on a screen or two.
const ROWS_MAX: usize = 50;

/// There is no index by name, so a word is looked for in so many runs at a time; the rest is a click away.
const LOOKED_AT_MAX: usize = 500;

/// Longer than the name of any workflow.
const WORD_CHARS_MAX: usize = 128;

/// Which runs are wanted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    status: String,
    #[serde(default)]
    workflow: String,
    #[serde(default)]
    before: String,
}

impl Wanted {
    fn status(&self) -> Option<RunStatus> {
        self.status.parse().ok()
    }

    fn cursor(&self) -> Option<Cursor> {
        (!self.before.is_empty()).then(|| Cursor::new(self.before.as_str()))
    }

    fn word(&self) -> String {
        self.workflow.trim().chars().take(WORD_CHARS_MAX).collect::<String>().to_lowercase()
    }

    fn next(&self, cursor: &Cursor) -> String {
        let (status, word) = (encoded(&self.status), encoded(&self.workflow));
        format!("/runs?status={status}&workflow={word}&before={}", encoded(cursor.as_str()))
    }
}

pub(crate) async fn list<S: Store>(
    visitor: Visitor<S>,
    Wish(wanted): Wish<Wanted>,
) -> Result<Html<String>, No> {
    let found = find(&visitor, &wanted).await?;
    let live = html! {
        @if found.runs.is_empty() { p.soft { "No run fits that." } } @else { (table(&found.runs, visitor.desk.now())) }
        @if let Some(next) = &found.next { p.pages { a href=(wanted.next(next)) rel="next" { "Older runs" } } }
    };
    // A page further down is about the past; only the first one is about now.
    let stream = if wanted.before.is_empty() { Stream::Tenant } else { Stream::None };
    let head = html! { h1 { "Runs" } (filters(&wanted)) };
    let page = Page { title: "Runs", under: Entry::Runs, stream, head, live, foot: html! {} };
    Ok(Html(layout::page(&visitor, &page).into_string()))
}

async fn find<S: Store>(visitor: &Visitor<S>, wanted: &Wanted) -> Result<RunPage, No> {
    let word = wanted.word();
    let (mut found, mut looked_at, mut next) = (Vec::new(), 0, wanted.cursor());
    let limit = u32::try_from(ROWS_MAX).unwrap_or(u32::MAX);
    loop {
        let asked = RunsWanted { status: wanted.status(), before: next, limit, ..RunsWanted::default() };
        let page = visitor.desk.runs(asked).await?;
        looked_at += page.runs.len();
        found.extend(page.runs.into_iter().filter(|run| fits(run, &word)));
        next = page.next;
        let enough = word.is_empty() || found.len() >= ROWS_MAX || looked_at >= LOOKED_AT_MAX;
        if enough || next.is_none() {
            return Ok(RunPage { runs: found, next });
        }
    }
}

fn fits(run: &RunRecord, word: &str) -> bool {
    run.workflow.as_str().to_lowercase().contains(word)
}

fn filters(wanted: &Wanted) -> Markup {
    let chosen = wanted.status();
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
            button type="submit" { "Show" }
        }
    }
}

/// Runs, one to a row; on a narrow screen, one to a card.
pub(crate) fn table(runs: &[RunRecord], now: Timestamp) -> Markup {
    html! {
        table.cards {
            thead { tr {
                th scope="col" { "Workflow" } th scope="col" { "Status" } th scope="col" { "Step" }
                th scope="col" { "Started" } th scope="col" { "Took" } th scope="col" { "Run" }
            } }
            tbody { @for run in runs { tr {
                td data-label="Workflow" { a href={ "/runs/" (run.key.run) } { (run.workflow) } " " span.soft { "v" (run.workflow_version) } }
                td data-label="Status" { (status(run.status)) }
                td.number data-label="Step" { (run.at.index() + 1) " of " (run.steps) }
                td data-label="Started" { (when(run.created_at, now)) }
                td.number data-label="Took" { (length(run.duration())) }
                td data-label="Run" { code { (run.key.run) } }
            } } }
        }
    }
}
