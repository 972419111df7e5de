//! Workers, queues, dead letters, and the dispatch switch.

use api::{ApiError, List};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::failure::MESSAGE_CHARS_MAX;
use domain::{DispatchStop, DrainRequest, Role, Timestamp, WorkerRecord, WorkerReport, WorkerStatus};
use engine::{DispatchState, FleetHealth, StartProgress};
use maud::{Markup, html};
use serde::Deserialize;
use store::{Cursor, Store};
use views::counted;

use crate::extract::{PathParams, SessionUser};
use crate::form::SessionForm;
use crate::layout::{self, MenuItem, Page, Stream, token};
use crate::page_error::{PageError, notice};
use crate::text::{self, InlineText, badge, relative_time};
use crate::{Shared, paging};

const PATH: &str = "/health";

#[derive(Deserialize)]
pub(crate) struct SwitchForm {
    #[serde(default)]
    reason: String,
    /// The encrypted progress of a start, from the previous form.
    #[serde(default)]
    rest: String,
}

/// The result of a switch form.
enum SwitchResult {
    Done,
    Refused(ApiError),
    /// Dispatch is running, and `notified` runs were notified so far. The rest needs another request.
    More {
        notified: u64,
        rest: String,
    },
}

pub(crate) async fn show<S: Store>(user: SessionUser<S>) -> Result<Response, PageError> {
    render(&user, &SwitchResult::Done).await
}

/// Stops or starts dispatch for the tenant.
pub(crate) async fn switch_dispatch<S: Store>(
    State(console): State<Shared<S>>,
    PathParams(verb): PathParams<String>,
    SessionForm { mut user, form }: SessionForm<S, SwitchForm>,
) -> Result<Response, PageError> {
    user.require_role(Role::Admin)?;
    // Live updates fetch the page, not the address of the form.
    PATH.clone_into(&mut user.address);
    let result = match (verb.as_str(), form.reason.trim()) {
        ("stop", "") => SwitchResult::Refused(ApiError::bad_request("a stop needs a reason")),
        ("stop", reason) => user.handle.stop_dispatch(reason).await.map(|_| SwitchResult::Done)?,
        ("start", _) => start(&console, &user, &form.rest).await?,
        _ => return Err(PageError::page_not_found()),
    };
    match result {
        SwitchResult::Done => Ok(Redirect::to(PATH).into_response()),
        result => render(&user, &result).await,
    }
}

/// Starts dispatch, or continues a start: each request notifies a limited number of runs.
async fn start<S: Store>(
    console: &Shared<S>,
    user: &SessionUser<S>,
    rest: &str,
) -> Result<SwitchResult, PageError> {
    let work = paging::list(console, user, "console-start", String::new());
    let progress = match progress(&work, rest) {
        Ok(progress) => progress,
        Err(problem) => return Ok(SwitchResult::Refused(problem)),
    };
    let (notified, rest) = user.handle.start_part(progress).await?;
    // A progress that cannot be serialized becomes an invalid form.
    let text = |rest: StartProgress| serde_json::to_string(&rest).unwrap_or_default();
    let rest = rest.map(|rest| work.encode_cursor(&Cursor::new(text(rest))));
    Ok(rest.map_or(SwitchResult::Done, |rest| SwitchResult::More { notified, rest }))
}

/// The progress in the form; `None` begins a start.
fn progress(work: &List<'_>, rest: &str) -> Result<Option<StartProgress>, ApiError> {
    let invalid = || {
        ApiError::bad_request("the form is invalid")
            .remedy("start dispatch again; notifying a run twice has no effect")
    };
    let Some(opened) = paging::open_cursor(work, rest).map_err(|_| invalid())? else { return Ok(None) };
    serde_json::from_str(opened.as_str()).map(Some).map_err(|_| invalid())
}

async fn render<S: Store>(user: &SessionUser<S>, result: &SwitchResult) -> Result<Response, PageError> {
    user.require_role(Role::Operator)?;
    let handle = &user.handle;
    let (health, dispatch) = (handle.health().await?, handle.dispatch().await?);
    // The page also has the dispatch switch, so it must load if the worker registry cannot be read.
    let workers = handle.workers().await;
    let oldest = handle.open_approvals(None, 1).await?.approvals.into_iter().next();
    let live = html! {
        (switch(user, &dispatch))
        (fleet(workers.as_deref().ok(), handle.now()))
        (queues(&health))
        section aria-labelledby="waiting" {
            h2 #waiting { "Oldest approval and overdue runs" }
            @match &oldest {
                Some(approval) => p {
                    "Oldest pending approval: " a href={ "/approvals/" (approval.id) } { (approval.workflow) ": " (approval.step) }
                    ", requested " (relative_time(approval.requested_at, handle.now())) "."
                },
                None => p.soft { "No pending approvals." },
            }
            @if health.overdue.of_tenant.is_empty() && health.overdue.all { p.soft { "No overdue runs." } }
            @else if health.overdue.of_tenant.is_empty() { p.soft { "None of the 100 longest overdue runs of all tenants belongs to this tenant." } }
            @else {
                p { "Overdue: no worker has processed these runs in time. " (overdue_hint(&dispatch)) }
                ul { @for run in &health.overdue.of_tenant { li { a href={ "/runs/" (run.run) } { code { (run.run) } } } } }
            }
        }
        (dead_letters(&health, user))
    };
    let head = html! {
        h1 { "Health" }
        @match result {
            SwitchResult::Done => {}
            SwitchResult::Refused(problem) => (notice(problem)),
            SwitchResult::More { notified, rest } => (more(user, *notified, rest)),
        }
    };
    let page = Page {
        title: "Health",
        menu_item: MenuItem::Health,
        stream: Stream::Poll,
        head,
        live,
        foot: html! {},
    };
    let status = match result {
        SwitchResult::Refused(problem) => StatusCode::from_u16(problem.status).ok(),
        SwitchResult::Done | SwitchResult::More { .. } => None,
    };
    let page = Html(layout::page(user, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

/// The form that continues a start.
fn more<S>(user: &SessionUser<S>, notified: u64, rest: &str) -> Markup {
    let notified = counted(usize::try_from(notified).unwrap_or(usize::MAX), "run");
    html! {
        div.why role="status" {
            p { strong { "Dispatch is running. Some waiting runs have not continued yet." } }
            p { (notified) " continued so far. The others continue within a few minutes." }
            form method="post" action="/health/start" {
                (token(user))
                input type="hidden" name="rest" value=(rest);
                button.primary type="submit" { "Continue the others now" }
            }
        }
    }
}

fn overdue_hint(dispatch: &DispatchState) -> &'static str {
    if dispatch.is_stopped() { "Dispatch is stopped." } else { "Check that a worker is running." }
}

/// The state of dispatch, with buttons for admins.
fn switch<S: Store>(user: &SessionUser<S>, dispatch: &DispatchState) -> Markup {
    let tenant = user.handle.tenant_id();
    html! {
        section aria-labelledby="dispatch" {
            h2 #dispatch { "Dispatch" }
            @match &dispatch.tenant {
                Some(stop) => (stopped(user, &format!("tenant {tenant}"), stop)),
                None => p { (badge("good", "✓", "running")) " Steps start for tenant " (tenant) "." },
            }
            @if let Some(stop) = &dispatch.fleet {
                (stopped(user, "any tenant", stop))
                p.soft { "Start dispatch for all tenants with `countersign dispatch start --all` on the store." }
            }
            @if user.has_role(Role::Admin) { div.verbs { (button(user, dispatch.tenant.is_some())) } }
        }
    }
}

fn stopped<S: Store>(user: &SessionUser<S>, scope: &str, stop: &DispatchStop) -> Markup {
    let DispatchStop { by, reason, at, backout } = stop;
    html! {
        p {
            (badge("warns", "‖", "stopped")) " No steps start for " (scope) ". Stopped by " (InlineText(&by.id)) " "
            (relative_time(*at, user.handle.now())) ": " (InlineText(reason))
        }
        @if let Some(since) = backout {
            p { "Backout started " (relative_time(*since, user.handle.now())) "." }
        }
    }
}

fn button<S>(user: &SessionUser<S>, is_stopped: bool) -> Markup {
    html! {
        @if is_stopped {
            form method="post" action="/health/start" {
                (token(user))
                p { "Waiting runs continue." }
                button.primary type="submit" { "Start dispatch" }
            }
        } @else {
            details #stop-dispatch {
                summary { "Stop dispatch" }
                form.stack method="post" action="/health/stop" {
                    (token(user))
                    p { "No new steps start. Running steps finish, inbound events are stored, and approvers can decide." }
                    label for="reason-stop" { "Reason" }
                    input #reason-stop name="reason" type="text" required maxlength=(MESSAGE_CHARS_MAX) autocomplete="off";
                    button.danger type="submit" { "Stop dispatch" }
                }
            }
        }
    }
}

/// The workers that run, or should run.
fn fleet(workers: Option<&[WorkerRecord]>, now: Timestamp) -> Markup {
    let expected: Vec<_> = workers.into_iter().flatten().filter(|worker| worker.is_expected(now)).collect();
    html! {
        section aria-labelledby="workers" {
            h2 #workers { "Workers" }
            @if workers.is_none() { p { "The worker registry cannot be read." } }
            @else if expected.is_empty() { p { "No workers registered. Start one with " code { "countersign worker" } "." } }
            @else {
                p.soft { "Workers serve all tenants." }
                table.cards {
                    thead { tr { th scope="col" { "Worker" } th scope="col" { "Status" } th scope="col" { "Messages" } th scope="col" { "Started" } th scope="col" { "Last heartbeat" } } }
                    tbody { @for worker in expected { tr {
                        td data-label="Worker" { code { (worker.worker) } }
                        td data-label="Status" { (worker_status(worker, worker.status(now))) }
                        td.number data-label="Messages" { (worker.report.in_flight()) }
                        td data-label="Started" { (relative_time(worker.started_at, now)) }
                        td data-label="Last heartbeat" { (relative_time(worker.heartbeat_at, now)) }
                    } } }
                }
            }
        }
    }
}

fn worker_status(worker: &WorkerRecord, status: WorkerStatus) -> Markup {
    html! {
        (text::worker_status(status))
        @if let WorkerReport::Unhealthy { reason, .. } = &worker.report { " " (InlineText(reason)) }
        @if let Some(DrainRequest { by, reason, .. }) = &worker.drain_request {
            " drain requested by " (InlineText(&by.id)) ": " (InlineText(reason))
        }
    }
}

fn queues(health: &FleetHealth) -> Markup {
    html! {
        section aria-labelledby="queues" {
            h2 #queues { "Queues" }
            p.soft { "Messages of all tenants." }
            table.cards {
                thead { tr { th scope="col" { "Queue" } th scope="col" { "Visible" } th scope="col" { "Total" } } }
                tbody { @for queue in &health.queues { tr {
                    td data-label="Queue" { (queue.queue) }
                    td.number data-label="Visible" { (queue.visible) }
                    td.number data-label="Total" { (queue.depth) }
                } } }
            }
        }
    }
}

fn dead_letters<S: Store>(health: &FleetHealth, user: &SessionUser<S>) -> Markup {
    html! {
        section aria-labelledby="dead" {
            h2 #dead { "Dead letters" }
            @if health.dead.of_tenant.is_empty() && health.dead.all { p.soft { "None." } }
            @else if health.dead.of_tenant.is_empty() { p.soft { "None of the 100 oldest dead letters of all tenants belongs to this tenant." } }
            @else {
                p { "A periodic check continues these runs when they are due." }
                table.cards {
                    thead { tr { th scope="col" { "Run" } th scope="col" { "Queue" } th scope="col" { "Receive count" } th scope="col" { "Moved" } } }
                    tbody { @for letter in &health.dead.of_tenant { tr {
                        td data-label="Run" { @if let Some(run) = letter.run() { a href={ "/runs/" (run.run) } { code { (run.run) } } } }
                        td data-label="Queue" { (letter.queue) }
                        td.number data-label="Receive count" { (letter.receives) }
                        td data-label="Moved" { (relative_time(letter.at, user.handle.now())) }
                    } } }
                }
            }
        }
    }
}
