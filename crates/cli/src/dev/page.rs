//! The page `/dev`: links, pending approvals and the latest runs.
//!
//! The page is read-only: no script, no form, no request to another host. All text is escaped, because much of it
//! comes from untrusted sources. The page is served only for the host names of this machine, because a foreign name
//! may resolve to it (DNS rebinding).

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
use views::hint::CommandHints;
use views::time::relative;

/// The maximum length of a list: one or two screens.
const ROWS_MAX: u32 = 20;

const STYLE: &str = include_str!("style.css");

/// Allows the style sheet and nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The constant part of the page.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) context: Context,
    pub(super) hints: CommandHints,
    pub(super) store: String,
    pub(super) slack: String,
    pub(super) servicenow: String,
    pub(super) model: String,
    /// The first command to try.
    pub(super) first_command: String,
}

/// The current state.
struct Snapshot {
    approvals: Vec<Approval>,
    runs: Vec<RunRecord>,
    at: Timestamp,
}

type Shared<S> = Arc<(Arc<Engine<S>>, Page)>;

pub(super) fn router<S: Store>(engine: Arc<Engine<S>>, page: Page) -> Router {
    let shared: Shared<S> = Arc::new((engine, page));
    Router::new().route("/dev", get(show_page::<S>)).route("/dev/style.css", get(style)).with_state(shared)
}

async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (X_CONTENT_TYPE_OPTIONS, "nosniff")], STYLE)
}

async fn show_page<S: Store>(State(shared): State<Shared<S>>, headers: HeaderMap) -> Response {
    if !is_local_host(&headers) {
        return (StatusCode::FORBIDDEN, "open this page at http://127.0.0.1").into_response();
    }
    let (engine, page) = &*shared;
    match Snapshot::read(engine, page).await {
        Ok(snapshot) => with_headers(Html(render(page, &snapshot).into_string())),
        Err(error) => {
            tracing::warn!(event = "dev_page_failed", %error, "cannot show the page");
            (StatusCode::SERVICE_UNAVAILABLE, "the store did not respond; try again").into_response()
        }
    }
}

fn with_headers(page: Html<String>) -> Response {
    let headers =
        [(CONTENT_SECURITY_POLICY, POLICY), (X_CONTENT_TYPE_OPTIONS, "nosniff"), (CACHE_CONTROL, "no-store")];
    (headers, page).into_response()
}

fn is_local_host(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "127.0.0.1" | "localhost")
}

impl Snapshot {
    async fn read<S: Store>(engine: &Engine<S>, page: &Page) -> Result<Self, StoreError> {
        let tenant = &page.context.tenant;
        Ok(Self {
            approvals: engine.store().open_approvals(tenant, PageQuery::first(ROWS_MAX)).await?.approvals,
            runs: engine.store().runs(tenant, RunQuery::newest(ROWS_MAX)).await?.runs,
            at: engine.now(),
        })
    }
}

fn render(page: &Page, snapshot: &Snapshot) -> Markup {
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
                p.soft { "Local environment. The external systems are fakes." }
                (try_it(page))
                (approvals(page, snapshot))
                (runs(page, snapshot))
                (services(page))
            }
        }
    }
}

fn try_it(page: &Page) -> Markup {
    html! {
        h2 { "Try it" }
        p { "Start a run that assigns the database incident to the right team. In a terminal:" }
        pre { code { (page.first_command) } }
        p {
            "Then approve it " a href=(page.slack) { "in Slack" } " as another user, and reload this page."
        }
    }
}

fn approvals(page: &Page, snapshot: &Snapshot) -> Markup {
    html! {
        h2 { "Pending approvals" }
        @if snapshot.approvals.is_empty() { p.soft { "None." } } @else {
            table {
                thead { tr { th { "Step" } th { "Action" } th { "Requested" } th { "Expires" } th { "Decide" } } }
                tbody { @for approval in &snapshot.approvals { tr {
                    td { (approval.workflow) ": " (approval.step) }
                    td { (action(approval)) }
                    td { (relative(approval.requested_at, snapshot.at)) }
                    td { (relative(approval.expires_at, snapshot.at)) }
                    td { a href=(page.slack) { "in Slack" } }
                } } }
            }
        }
    }
}

fn action(approval: &Approval) -> String {
    match &approval.subject {
        Subject::Question { message } => message.clone(),
        Subject::Action { action, .. } => {
            let changed: Vec<&str> = action.changes.iter().map(|change| change.field.as_str()).collect();
            format!("{} on {}: {}", action.tool, action.target, changed.join(", "))
        }
    }
}

fn runs(page: &Page, snapshot: &Snapshot) -> Markup {
    html! {
        h2 { "Latest runs" }
        @if snapshot.runs.is_empty() { p.soft { "None yet." } } @else {
            table {
                thead { tr { th { "Run" } th { "Workflow" } th { "Status" } th { "Started" } } }
                tbody { @for run in &snapshot.runs { tr {
                    td { code { (run.key.run) } }
                    td { (run.workflow) ", version " (run.workflow_version) }
                    td { (run.status) }
                    td { (relative(run.created_at, snapshot.at)) }
                } } }
            }
            p { "Details of a run:" }
            pre { code { (page.hints.line("run show RUN")) } }
        }
    }
}

fn services(page: &Page) -> Markup {
    html! {
        h2 { "Services" }
        table { tbody {
            tr { td { "Slack" } td { a href=(page.slack) { (page.slack) } } td { "approve or reject here" } }
            tr { td { "ServiceNow" } td { code { (page.servicenow) } } td { "Table API" } }
            tr { td { "Model" } td { code { (page.model) } } td { "returns recorded replies" } }
            tr { td { "Store" } td { code { (page.store) } } td { "for --store" } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn foreign_host_name_is_refused() {
        let is_local = |host| is_local_host(&HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]));
        assert!(is_local("127.0.0.1:7420") && is_local("localhost:7420"));
        assert!(!is_local("evil.example:7420") && !is_local_host(&HeaderMap::new()));
    }
}
