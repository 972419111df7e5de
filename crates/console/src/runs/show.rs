//! One run: where it stands and why, what happened when, and what it did.

use api::Problem;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use domain::{Event, EventBody, IdempotencyKey, Receipt, RunId};
use engine::EngineError;
use maud::{Markup, html};
use store::Store;
use views::hint::Hints;
use views::time::{length, moment};
use views::{Seen as Look, canceled, money, waiting};

use super::act::buttons;
use super::sections;
use super::timeline;
use crate::at::{Named, Visitor};
use crate::layout::{self, Entry, Page, Stream, encoded, facts};
use crate::no::{No, notice};
use crate::text::{Seen, status, when};

pub(crate) async fn show<S: Store>(visitor: Visitor<S>, Named(run): Named<String>) -> Result<Response, No> {
    let run = RunId::new(&run).map_err(|_| No::such("run"))?;
    render(visitor, &run, None).await
}

/// The page of a run, with what was refused just now.
pub(super) async fn render<S: Store>(
    visitor: Visitor<S>,
    run: &RunId,
    refused: Option<Problem>,
) -> Result<Response, No> {
    let look = Look::at(&visitor.handle, run, Hints::plain()).await?;
    let receipts = receipts(&visitor, &look).await?;
    let record = &look.view.record;
    let live = html! {
        (standing(&look))
        (why(&visitor, &look))
        section aria-labelledby="timeline" { h2 #timeline { "Timeline" } (timeline::drawn(&look)) }
        (sections::steps(&look))
        (sections::approvals(&look))
        (sections::verdicts(&look))
        (sections::receipts(&receipts, &record.key.run))
        (sections::costs(&look))
        (sections::events(&look))
    };
    let title = format!("{} {}", record.workflow, record.key.run);
    let page = Page {
        title: &title,
        under: Entry::Runs,
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
    let page = Html(layout::page(&visitor, &page).into_string());
    Ok((status.unwrap_or(StatusCode::OK), page).into_response())
}

/// The receipts that the chain speaks of, in its order; none, if the chain does not hold.
async fn receipts<S: Store>(visitor: &Visitor<S>, look: &Look) -> Result<Vec<Receipt>, EngineError> {
    let Ok(events) = &look.view.events else { return Ok(Vec::new()) };
    let mut receipts = visitor.handle.receipts(&look.view.record.key.run).await?;
    let first = |receipt: &Receipt| events.iter().position(|event| names(event, &receipt.key));
    // What the run did since it was looked at comes last.
    receipts.sort_by_cached_key(|receipt| first(receipt).unwrap_or(usize::MAX));
    Ok(receipts)
}

/// Whether an event speaks of the effect under `key`.
fn names(event: &Event, key: &IdempotencyKey) -> bool {
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

fn standing(look: &Look) -> Markup {
    let record = &look.view.record;
    let took = record.duration().map(|took| html! { " after " (length(took)) });
    let evidence = record.status.is_terminal().then(|| {
        html! { a href={ "/evidence/" (record.key.run) } { "Verify it" } }
    });
    let by = record.trigger.requester.as_ref().map(ToString::to_string);
    let mut told = vec![
        ("Status", html! { (status(record.status)) @if let Some(took) = took { (took) } }),
        (
            "Started",
            html! { (when(record.created_at, look.now)) " " span.soft { (moment(record.created_at)) } },
        ),
        ("By", html! { (by.unwrap_or_else(|| record.trigger.kind.clone())) }),
        ("Key", html! { code { (Seen(record.trigger.reference.as_str())) } }),
        ("Cost", html! { (money(record.cost_microusd)) }),
        ("Evidence", evidence.unwrap_or_else(|| html! { span.soft { "when it is over" } })),
    ];
    if let Some(canceled) = canceled(look) {
        let why = if canceled.reason.is_empty() { "no reason was given" } else { &canceled.reason };
        told.insert(
            1,
            (
                "Canceled",
                html! { "by " (Seen(&canceled.by)) ": " (Seen(why)) " " span.soft { (canceled.at) } },
            ),
        );
    }
    if let Some(about) = &record.trigger.record {
        let runs = format!("/runs?record={}", encoded(about.as_str()));
        told.push(("About", html! { a href=(runs) { (about) } }));
    }
    facts(&told)
}

fn why<S: Store>(visitor: &Visitor<S>, look: &Look) -> Markup {
    let Some(waiting) = waiting(look) else { return html! {} };
    let asked = look.asked().filter(|asked| asked.is_open());
    html! {
        section.why aria-labelledby="why" {
            h2 #why { "Why it waits" }
            p { (Seen(&waiting.why)) }
            @if let Some(asked) = asked {
                p { a.button.primary href={ "/approvals/" (asked.id) } { "Read and answer" } }
            }
            h3 { "What ends the wait" }
            ul.ways { @for way in &waiting.ends { li {
                @match &way.command {
                    Some(command) => { code { (Seen(command)) } " " (Seen(&way.what)) }
                    None => { "By itself: " (Seen(&way.what)) }
                }
            } } }
            (buttons(visitor, &look.view))
        }
    }
}
