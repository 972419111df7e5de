//! One run: its status, timeline, approvals and effects.

use api::ApiError;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::money::money;
use domain::{Event, EventBody, IdempotencyKey, Receipt, RunId};
use engine::EngineError;
use maud::{Markup, html};
use store::Store;
use views::hint::CommandHints;
use views::time::{duration, timestamp};
use views::{RunSnapshot, canceled, waiting};

use super::act::buttons;
use super::sections;
use super::timeline;
use crate::extract::{PathParams, SessionUser};
use crate::layout::{self, MenuItem, Page, Stream, facts, query_encoded};
use crate::page_error::{PageError, notice};
use crate::text::{InlineText, relative_time, status};
use crate::{Console, Shared};

pub(crate) async fn show<S: Store>(
    user: SessionUser<S>,
    State(console): State<Shared<S>>,
    PathParams(run): PathParams<String>,
) -> Result<Response, PageError> {
    let run = RunId::new(&run).map_err(|_| PageError::not_found("run"))?;
    render(user, &console, &run, None).await
}

/// The page of a run, with the error of the last action.
pub(super) async fn render<S: Store>(
    user: SessionUser<S>,
    console: &Console<S>,
    run: &RunId,
    refused: Option<ApiError>,
) -> Result<Response, PageError> {
    let snapshot =
        RunSnapshot::load_compared(&user.handle, run, CommandHints::plain(), console.keys.as_ref()).await?;
    let receipts = receipts(&user, &snapshot).await?;
    let record = &snapshot.view.record;
    let live = html! {
        @if let Some(what) = snapshot.altered() {
            div.notice role="alert" {
                p { strong { "The run was changed after its evidence was signed: " (what) " differs from the signed bundle." } }
                p { "The bundle on the evidence page is the record of the run." }
            }
        }
        @if snapshot.has_other_signer() {
            div.notice role="alert" {
                p { strong { "The bundle of the run names another key than the configured one." } }
                p { "If that key was replaced, verify the bundle with the old key." }
            }
        }
        (summary(&snapshot))
        (why(&user, &snapshot))
        section aria-labelledby="timeline" { h2 #timeline { "Timeline" } (timeline::render(&snapshot)) }
        (sections::steps(&snapshot))
        (sections::approvals(&snapshot))
        (sections::verdicts(&snapshot))
        (sections::receipts(&receipts, &record.key.run))
        (sections::costs(&snapshot))
        (sections::events(&snapshot))
    };
    let title = format!("{} {}", record.workflow, record.key.run);
    let page = Page {
        title: &title,
        menu_item: MenuItem::Runs,
        stream: Stream::Run(record.key.run.as_str()),
        head: html! {
            h1 { (record.workflow) " " span.soft { "v" (record.workflow_version) } }
            p.soft { "Run " code { (record.key.run) } }
            @if let Some(problem) = &refused { (notice(problem)) }
        },
        live,
        foot: html! {},
    };
    let status = refused.and_then(|problem| StatusCode::from_u16(problem.status).ok());
    let page = Html(layout::page(&user, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

/// The receipts in the order of the chain; none if the chain is broken.
async fn receipts<S: Store>(
    user: &SessionUser<S>,
    snapshot: &RunSnapshot,
) -> Result<Vec<Receipt>, EngineError> {
    let Ok(events) = &snapshot.view.events else { return Ok(Vec::new()) };
    let mut receipts = user.handle.receipts(&snapshot.view.record.key.run).await?;
    let first = |receipt: &Receipt| events.iter().position(|event| is_about(event, &receipt.key));
    // Receipts that are newer than the snapshot come last.
    receipts.sort_by_cached_key(|receipt| first(receipt).unwrap_or(usize::MAX));
    Ok(receipts)
}

/// Whether an event is about the effect with `key`.
fn is_about(event: &Event, key: &IdempotencyKey) -> bool {
    match &event.body {
        EventBody::EffectIntended { receipt, .. } | EventBody::OutcomeUnknown { receipt, .. } => {
            receipt.key == *key
        }
        EventBody::StepSucceeded { receipt, .. } | EventBody::StepRolledBack { receipt, .. } => {
            receipt.as_ref().is_some_and(|receipt| receipt.key == *key)
        }
        _ => false,
    }
}

fn summary(snapshot: &RunSnapshot) -> Markup {
    let record = &snapshot.view.record;
    let took = record.duration().map(|took| html! { " after " (duration(took)) });
    let evidence = record.status.is_terminal().then(|| {
        html! { a href={ "/evidence/" (record.key.run) } { "Verify" } }
    });
    let by = record.trigger.requester.as_ref().map(ToString::to_string);
    let mut rows = vec![
        ("Status", html! { (status(record.status)) @if let Some(took) = took { (took) } }),
        (
            "Started",
            html! { (relative_time(record.created_at, snapshot.now)) " " span.soft { (timestamp(record.created_at)) } },
        ),
        ("Started by", html! { (by.unwrap_or_else(|| record.trigger.kind.clone())) }),
        ("Idempotency key", html! { code { (InlineText(record.trigger.reference.as_str())) } }),
        ("Cost", html! { (money(record.cost_microusd)) }),
        ("Evidence", evidence.unwrap_or_else(|| html! { span.soft { "after the run ends" } })),
    ];
    if let Some(canceled) = canceled(snapshot) {
        let why = if canceled.reason.is_empty() { "no reason given" } else { &canceled.reason };
        rows.insert(
            1,
            (
                "Canceled",
                html! { "by " (InlineText(&canceled.by)) ": " (InlineText(why)) " " span.soft { (canceled.at) } },
            ),
        );
    }
    if let Some(about) = &record.trigger.record {
        let runs = format!("/runs?record={}", query_encoded(about.as_str()));
        rows.push(("Record", html! { a href=(runs) { (about) } }));
    }
    facts(&rows)
}

fn why<S: Store>(user: &SessionUser<S>, snapshot: &RunSnapshot) -> Markup {
    let Some(waiting) = waiting(snapshot) else { return html! {} };
    let approval = snapshot.approval().filter(|approval| approval.is_open());
    html! {
        section.why aria-labelledby="why" {
            h2 #why { "Why it waits" }
            p { (InlineText(&waiting.reason)) }
            @if let Some(approval) = approval {
                p { a.button.primary href={ "/approvals/" (approval.id) } { "Review" } }
            }
            h3 { "What ends the wait" }
            ul.ways { @for action in &waiting.next_actions { li {
                @match &action.command {
                    Some(command) => { code { (InlineText(command)) } " " (InlineText(&action.description)) }
                    None => { "Automatically: " (InlineText(&action.description)) }
                }
            } } }
            (buttons(user, &snapshot.view))
        }
    }
}
