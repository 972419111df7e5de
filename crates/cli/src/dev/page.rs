//! The page of links: where everything is, what people are asked, how the last runs stand.
//!
//! It only shows. There is no script and no form on it, it asks nothing of another host, and every text is
//! escaped: much of what stands here was written by strangers. Under a name that is not this machine's it is
//! not shown at all, because a stranger's name may lead here, too.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use domain::{Approval, RunRecord, Subject, Timestamp};
use engine::Engine;
use maud::{DOCTYPE, Markup, html};
use store::{PageQuery, RunQuery, Store, StoreError};

use crate::context::Context;
use views::hint::Hints;
use views::time::distance;

/// What fits on a screen or two.
const ROWS_MAX: u32 = 20;

const STYLE: &str = include_str!("style.css");

/// Nothing is fetched but the style sheet, nothing is sent, nobody frames it.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the page always says.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) context: Context,
    /// Commands that can be typed.
    pub(super) hints: Hints,
    /// Where runs are kept.
    pub(super) store: String,
    pub(super) slack: String,
    pub(super) servicenow: String,
    pub(super) model: String,
    /// The first thing to try.
    pub(super) first: String,
}

/// What it says at this moment.
struct Now {
    approvals: Vec<Approval>,
    runs: Vec<RunRecord>,
    at: Timestamp,
}

type Shared<S> = Arc<(Arc<Engine<S>>, Page)>;

/// The page and its style sheet.
pub(super) fn router<S: Store>(engine: Arc<Engine<S>>, page: Page) -> Router {
    let shared: Shared<S> = Arc::new((engine, page));
    Router::new().route("/dev", get(shown::<S>)).route("/dev/style.css", get(style)).with_state(shared)
}

async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (X_CONTENT_TYPE_OPTIONS, "nosniff")], STYLE)
}

async fn shown<S: Store>(State(shared): State<Shared<S>>, headers: HeaderMap) -> Response {
    if !is_here(&headers) {
        return (StatusCode::FORBIDDEN, "open this page as http://127.0.0.1").into_response();
    }
    let (engine, page) = &*shared;
    match Now::look(engine, page).await {
        Ok(now) => guarded(Html(render(page, &now).into_string())),
        Err(error) => {
            tracing::warn!(%error, "the page could not be shown");
            (StatusCode::SERVICE_UNAVAILABLE, "the store did not answer; try again").into_response()
        }
    }
}

fn guarded(page: Html<String>) -> Response {
    let headers =
        [(CONTENT_SECURITY_POLICY, POLICY), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (CACHE_CONTROL, "no-store")];
    (headers, page).into_response()
}

fn is_here(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost")
}

impl Now {
    async fn look<S: Store>(engine: &Engine<S>, page: &Page) -> Result<Self, StoreError> {
        let tenant = &page.context.tenant;
        Ok(Self {
            approvals: engine.store().open_approvals(tenant, PageQuery::first(ROWS_MAX)).await?.approvals,
            runs: engine.store().runs(tenant, RunQuery::newest(ROWS_MAX)).await?.runs,
            at: engine.now(),
        })
    }
}

fn render(page: &Page, now: &Now) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "Countersign on this machine" }
                link rel="stylesheet" href="/dev/style.css";
            }
            body {
                h1 { "Countersign" }
                p.soft { "on this machine; the systems outside are simulated" }
                (first(page))
                (approvals(page, now))
                (runs(page, now))
                (places(page))
            }
        }
    }
}

fn first(page: &Page) -> Markup {
    html! {
        h2 { "The first thing to try" }
        p { "Hand the incident about the database over to the right people. In a terminal:" }
        pre { code { (page.first) } }
        p {
            "Then press Approve " a href=(page.slack) { "in Slack" } ", as somebody else than you, and come back here."
        }
    }
}

fn approvals(page: &Page, now: &Now) -> Markup {
    html! {
        h2 { "What people are asked" }
        @if now.approvals.is_empty() { p.soft { "Nothing." } } @else {
            table {
                thead { tr { th { "step" } th { "asks" } th { "asked" } th { "lapses" } th { "answer" } } }
                tbody { @for approval in &now.approvals { tr {
                    td { (approval.workflow) ": " (approval.step) }
                    td { (asks(approval)) }
                    td { (distance(approval.asked_at, now.at)) }
                    td { (distance(approval.expires_at, now.at)) }
                    td { a href=(page.slack) { "in Slack" } }
                } } }
            }
        }
    }
}

fn asks(approval: &Approval) -> String {
    match &approval.subject {
        Subject::Question { message } => message.clone(),
        Subject::Action { action, .. } => {
            let changed: Vec<&str> = action.changes.iter().map(|change| change.field.as_str()).collect();
            format!("{} on {}: {}", action.tool, action.target, changed.join(", "))
        }
    }
}

fn runs(page: &Page, now: &Now) -> Markup {
    html! {
        h2 { "The last runs" }
        @if now.runs.is_empty() { p.soft { "None yet." } } @else {
            table {
                thead { tr { th { "run" } th { "workflow" } th { "status" } th { "started" } } }
                tbody { @for run in &now.runs { tr {
                    td { code { (run.key.run) } }
                    td { (run.workflow) ", version " (run.workflow_version) }
                    td { (run.status) }
                    td { (distance(run.created_at, now.at)) }
                } } }
            }
            p { "All about one of them:" }
            pre { code { (page.hints.line("run show RUN")) } }
        }
    }
}

fn places(page: &Page) -> Markup {
    html! {
        h2 { "Where everything is" }
        table { tbody {
            tr { td { "Slack" } td { a href=(page.slack) { (page.slack) } } td { "press the buttons here" } }
            tr { td { "ServiceNow" } td { code { (page.servicenow) } } td { "the Table API, for workers" } }
            tr { td { "model" } td { code { (page.model) } } td { "says what was recorded" } }
            tr { td { "store" } td { code { (page.store) } } td { "for --store" } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_page_is_not_shown_under_a_stranger_s_name() {
        let here = |host| is_here(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]));
        assert!(here("127.0.0.1:7420") && here("localhost:7420"));
        assert!(!here("evil.example:7420") && !is_here(&HeaderMap::new()));
    }
}
