//! Which workers there are, whether messages pile up, what was given up, and the switch that stops all of it.

use api::{List, Problem};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use domain::failure::MESSAGE_CHARS_MAX;
use domain::{DrainRequest, Role, Stopped, Timestamp, WorkerRecord, WorkerReport, WorkerStatus};
use engine::{Dispatch, Health, StartSoFar};
use maud::{Markup, html};
use serde::Deserialize;
use store::{Cursor, Store};
use views::counted;

use crate::at::{Named, Visitor};
use crate::form::Sent;
use crate::layout::{self, Entry, Page, Stream, token};
use crate::no::{No, notice};
use crate::text::{self, Seen, badge, when};
use crate::{Shared, pages};

/// Where the page is.
const HERE: &str = "/health";

#[derive(Deserialize)]
pub(crate) struct Said {
    #[serde(default)]
    reason: String,
    /// How far a start is, as the form before said it.
    #[serde(default)]
    rest: String,
}

/// What came of turning the switch.
enum Came {
    /// Nobody turned it just now.
    Nothing,
    /// It was refused.
    Refused(Problem),
    /// It is on. So many runs were told to go on, and what is left is for another request.
    More { told: u64, rest: String },
}

pub(crate) async fn show<S: Store>(visitor: Visitor<S>) -> Result<Response, No> {
    render(&visitor, &Came::Nothing).await
}

/// Turns the switch of the tenant.
pub(crate) async fn turn<S: Store>(
    State(console): State<Shared<S>>,
    Named(verb): Named<String>,
    Sent { mut visitor, form }: Sent<S, Said>,
) -> Result<Response, No> {
    visitor.must_be(Role::Admin)?;
    // Nothing is fetched from where a form was sent to.
    HERE.clone_into(&mut visitor.address);
    let came = match (verb.as_str(), form.reason.trim()) {
        ("stop", "") => Came::Refused(Problem::bad_request("a stop needs a reason: others will wonder")),
        ("stop", reason) => visitor.handle.stop_dispatch(reason).await.map(|_| Came::Nothing)?,
        ("start", _) => started(&console, &visitor, &form.rest).await?,
        _ => return Err(No::page()),
    };
    match came {
        Came::Nothing => Ok(Redirect::to(HERE).into_response()),
        came => render(&visitor, &came).await,
    }
}

/// Starts dispatch, or goes on with a start: a request tells as many runs as somebody can wait for.
async fn started<S: Store>(console: &Shared<S>, visitor: &Visitor<S>, rest: &str) -> Result<Came, No> {
    let work = pages::list(console, visitor, "console-start", String::new());
    let so_far = match so_far(&work, rest) {
        Ok(so_far) => so_far,
        Err(problem) => return Ok(Came::Refused(problem)),
    };
    let (told, rest) = visitor.handle.start_some(so_far).await?;
    // What cannot be written is refused when it is brought.
    let written = |rest: StartSoFar| serde_json::to_string(&rest).unwrap_or_default();
    let rest = rest.map(|rest| work.seal(&Cursor::new(written(rest))));
    Ok(rest.map_or(Came::Nothing, |rest| Came::More { told, rest }))
}

/// How far a start is, as the form says; one that says nothing begins it.
fn so_far(work: &List<'_>, rest: &str) -> Result<Option<StartSoFar>, Problem> {
    let unknown = || {
        Problem::bad_request("the form is not one that was shown here")
            .remedy("whoever starts dispatch begins anew; nothing is done twice by that")
    };
    let Some(opened) = pages::opened(work, rest).map_err(|_| unknown())? else { return Ok(None) };
    serde_json::from_str(opened.as_str()).map(Some).map_err(|_| unknown())
}

/// The page, with what came of turning the switch just now.
async fn render<S: Store>(visitor: &Visitor<S>, came: &Came) -> Result<Response, No> {
    visitor.must_be(Role::Operator)?;
    let handle = &visitor.handle;
    let (health, dispatch) = (handle.health().await?, handle.dispatch().await?);
    // The switch is on this page too: it must be there whatever becomes of the roll.
    let workers = handle.workers().await;
    let oldest = handle.open_approvals(None, 1).await?.approvals.into_iter().next();
    let live = html! {
        (switch(visitor, &dispatch))
        (fleet(workers.as_deref().ok(), handle.now()))
        (queues(&health))
        section aria-labelledby="waiting" {
            h2 #waiting { "What waits longest" }
            @match &oldest {
                Some(asked) => p {
                    "The oldest open request: " a href={ "/approvals/" (asked.id) } { (asked.workflow) ": " (asked.step) }
                    ", asked " (when(asked.asked_at, handle.now())) "."
                },
                None => p.soft { "Nobody is asked anything." },
            }
            @if health.overdue.of_tenant.is_empty() && health.overdue.all { p.soft { "No run is overdue." } }
            @else if health.overdue.of_tenant.is_empty() { p.soft { "None of the hundred runs that are overdue longest, of all tenants, is yours." } }
            @else {
                p { "Overdue: nobody has looked at these in time. " (wonder(&dispatch)) }
                ul { @for run in &health.overdue.of_tenant { li { a href={ "/runs/" (run.run) } { code { (run.run) } } } } }
            }
        }
        (dead(&health, visitor))
    };
    let head = html! {
        h1 { "Health" }
        @match came {
            Came::Nothing => {}
            Came::Refused(problem) => (notice(problem)),
            Came::More { told, rest } => (more(visitor, *told, rest)),
        }
    };
    let page =
        Page { title: "Health", under: Entry::Health, stream: Stream::Untold, head, live, foot: html! {} };
    let status = match came {
        Came::Refused(problem) => StatusCode::from_u16(problem.status).ok(),
        Came::Nothing | Came::More { .. } => None,
    };
    let page = Html(layout::page(visitor, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

/// The way to go on with a start.
fn more<S>(visitor: &Visitor<S>, told: u64, rest: &str) -> Markup {
    let told = counted(usize::try_from(told).unwrap_or(usize::MAX), "run");
    html! {
        div.why role="status" {
            p { strong { "Dispatch is on, and there is more to do." } }
            p { (told) " can go on so far. Tell the others, too; otherwise it takes them some minutes to notice." }
            form method="post" action="/health/start" {
                (token(visitor))
                input type="hidden" name="rest" value=(rest);
                button.primary type="submit" { "Tell the others" }
            }
        }
    }
}

/// Why nobody may have looked.
fn wonder(dispatch: &Dispatch) -> &'static str {
    if dispatch.is_stopped() { "Dispatch is stopped." } else { "Is a worker running?" }
}

/// How the switch stands, and the buttons of whoever may turn it.
fn switch<S: Store>(visitor: &Visitor<S>, dispatch: &Dispatch) -> Markup {
    let tenant = visitor.handle.tenant_id();
    html! {
        section aria-labelledby="dispatch" {
            h2 #dispatch { "Dispatch" }
            @match &dispatch.tenant {
                Some(stopped) => (stood_still(visitor, &format!("tenant {tenant}"), stopped)),
                None => p { (badge("good", "✓", "on")) " Steps of tenant " (tenant) " are begun." },
            }
            @if let Some(stopped) = &dispatch.fleet {
                (stood_still(visitor, "any tenant", stopped))
                p.soft { "Only whoever operates the store starts dispatch for all again." }
            }
            @if visitor.may(Role::Admin) { div.verbs { (button(visitor, dispatch.tenant.is_some())) } }
        }
    }
}

fn stood_still<S: Store>(visitor: &Visitor<S>, whom: &str, stopped: &Stopped) -> Markup {
    let Stopped { by, reason, at, backout } = stopped;
    html! {
        p {
            (badge("warns", "‖", "stopped")) " Nothing is begun for " (whom) ". " (Seen(&by.id)) " stopped it "
            (when(*at, visitor.handle.now())) ": " (Seen(reason))
        }
        @if let Some(since) = backout {
            p { "What was under way is being ended, since " (when(*since, visitor.handle.now())) "." }
        }
    }
}

/// The way to turn the switch.
fn button<S>(visitor: &Visitor<S>, is_stopped: bool) -> Markup {
    html! {
        @if is_stopped {
            form method="post" action="/health/start" {
                (token(visitor))
                p { "What waits goes on, in the order it can." }
                button.primary type="submit" { "Start dispatch" }
            }
        } @else {
            details #turn-stop {
                summary { "Stop dispatch" }
                form.stack method="post" action="/health/stop" {
                    (token(visitor))
                    p { "No step is begun any more. Steps under way finish, what comes in is kept, and people can still answer." }
                    label for="reason-stop" { "Why" }
                    input #reason-stop name="reason" type="text" required maxlength=(MESSAGE_CHARS_MAX) autocomplete="off";
                    button.danger type="submit" { "Stop dispatch" }
                }
            }
        }
    }
}

/// The workers that are there, or should be.
fn fleet(workers: Option<&[WorkerRecord]>, now: Timestamp) -> Markup {
    let there: Vec<_> = workers.into_iter().flatten().filter(|worker| worker.is_expected(now)).collect();
    html! {
        section aria-labelledby="workers" {
            h2 #workers { "Workers" }
            @if workers.is_none() { p { "The roll of workers could not be read." } }
            @else if there.is_empty() { p { "No worker has signed the roll." } }
            @else {
                p.soft { "They serve every tenant." }
                table.cards {
                    thead { tr { th scope="col" { "Worker" } th scope="col" { "WorkerStatus" } th scope="col" { "In hand" } th scope="col" { "Came" } th scope="col" { "Last heard of" } } }
                    tbody { @for worker in there { tr {
                        td data-label="Worker" { code { (worker.worker) } }
                        td data-label="WorkerStatus" { (stands(worker, worker.standing(now))) }
                        td.number data-label="In hand" { (worker.says.in_hand()) }
                        td data-label="Came" { (when(worker.since, now)) }
                        td data-label="Last heard of" { (when(worker.seen, now)) }
                    } } }
                }
            }
        }
    }
}

fn stands(worker: &WorkerRecord, standing: WorkerStatus) -> Markup {
    html! {
        (text::standing(standing))
        @if let WorkerReport::Unwell { why, .. } = &worker.says { " " (Seen(why)) }
        @if let Some(DrainRequest { by, reason, .. }) = &worker.asked {
            " asked to leave by " (Seen(&by.id)) ": " (Seen(reason))
        }
    }
}

fn queues(health: &Health) -> Markup {
    html! {
        section aria-labelledby="queues" {
            h2 #queues { "Queues" }
            p.soft { "Messages of the whole fleet." }
            table.cards {
                thead { tr { th scope="col" { "QueueName" } th scope="col" { "Nobody has taken" } th scope="col" { "In all" } } }
                tbody { @for queue in &health.queues { tr {
                    td data-label="QueueName" { (queue.queue) }
                    td.number data-label="Nobody has taken" { (queue.waiting) }
                    td.number data-label="In all" { (queue.depth) }
                } } }
            }
        }
    }
}

fn dead<S: Store>(health: &Health, visitor: &Visitor<S>) -> Markup {
    html! {
        section aria-labelledby="dead" {
            h2 #dead { "Dead letters" }
            @if health.dead.of_tenant.is_empty() && health.dead.all { p.soft { "None." } }
            @else if health.dead.of_tenant.is_empty() { p.soft { "None of the hundred oldest, of all tenants, is yours." } }
            @else {
                p { (health.dead.of_tenant.len()) " given up. Their runs are still looked at when they are due." }
                table.cards {
                    thead { tr { th scope="col" { "Run" } th scope="col" { "QueueName" } th scope="col" { "Delivered" } th scope="col" { "Given up" } } }
                    tbody { @for letter in &health.dead.of_tenant { tr {
                        td data-label="Run" { a href={ "/runs/" (letter.run.run) } { code { (letter.run.run) } } }
                        td data-label="QueueName" { (letter.queue) }
                        td.number data-label="Delivered" { (letter.receives) " times" }
                        td data-label="Given up" { (when(letter.at, visitor.handle.now())) }
                    } } }
                }
            }
        }
    }
}
