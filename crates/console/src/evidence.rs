//! The evidence of a run, verified in front of whoever looks.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse as _, Response};
use domain::{Digest, Evidence, RunId};
use engine::EngineError;
use evidence::{Check, Fault, PublicKey, Verified, examine};
use maud::{Markup, html};
use store::Store;
use views::time::moment;

use crate::Shared;
use crate::at::{Named, Visitor};
use crate::guard::REPORT_POLICY;
use crate::layout::{self, Entry, Page, Stream, facts};
use crate::no::No;
use crate::text::Seen;

/// What came of verifying.
struct Examined {
    /// Whether the file is the one that was recorded.
    recorded: bool,
    held: Vec<Check>,
    outcome: Result<Verified, Fault>,
}

pub(crate) async fn show<S: Store>(
    visitor: Visitor<S>,
    State(console): State<Shared<S>>,
    Named(run): Named<String>,
) -> Result<Html<String>, No> {
    let run = named(&run)?;
    let title = format!("Evidence of {run}");
    let (live, stream) = match visitor.handle.evidence(&run).await {
        Ok((evidence, bytes)) => (found(&run, &evidence, &bytes, console.key.as_ref()), Stream::None),
        Err(EngineError::NoEvidence { .. }) => (not_yet(&run), Stream::Untold),
        Err(error) => return Err(error.into()),
    };
    let page = Page {
        title: &title,
        under: Entry::Runs,
        stream,
        head: html! { h1 { "Evidence" } p.soft { "of run " a href={ "/runs/" (run) } { code { (run) } } } },
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&visitor, &page).into_string()))
}

pub(crate) async fn bundle<S: Store>(visitor: Visitor<S>, Named(run): Named<String>) -> Result<Response, No> {
    let run = named(&run)?;
    let (_, bytes) = visitor.handle.evidence(&run).await?;
    let file = format!("attachment; filename=\"{run}.bundle.json\"");
    Ok(([(CONTENT_TYPE, "application/json"), (CONTENT_DISPOSITION, file.as_str())], bytes).into_response())
}

pub(crate) async fn report<S: Store>(
    visitor: Visitor<S>,
    State(console): State<Shared<S>>,
    Named(run): Named<String>,
) -> Result<Response, No> {
    let run = named(&run)?;
    let (_, bytes) = visitor.handle.evidence(&run).await?;
    // A report of what does not hold would lend it weight.
    let verified = console.key.as_ref().and_then(|key| evidence::verify(&bytes, key).ok());
    let verified = verified.ok_or_else(|| No::such("report"))?;
    Ok(([(CONTENT_SECURITY_POLICY, REPORT_POLICY)], Html(evidence::html(&verified))).into_response())
}

fn named(run: &str) -> Result<RunId, No> {
    RunId::new(run).map_err(|_| No::such("run"))
}

fn not_yet(run: &RunId) -> Markup {
    html! {
        p { "The evidence is not there yet. A worker puts it together when the run is over." }
        p { a href={ "/runs/" (run) } { "How the run stands" } }
    }
}

fn found(run: &RunId, evidence: &Evidence, bytes: &[u8], key: Option<&PublicKey>) -> Markup {
    let about = facts(&[
        ("sha256", html! { code { (evidence.bundle.sha256) } }),
        ("Size", html! { (evidence.bundle.bytes) " bytes" }),
        ("Put together", html! { (moment(evidence.sealed_at)) }),
        ("Entry of the log", html! { (evidence.index) }),
    ]);
    let examined = key.map(|key| examined(evidence, bytes, key));
    html! {
        (about)
        @match &examined {
            Some(examined) => (verdict(examined)),
            None => p { "This server was not given the public key, so it cannot verify the file. " code { "countersign bundle verify" } " can." },
        }
        p.links {
            a.button href={ "/evidence/" (run) "/bundle" } download { "Download the bundle" }
            @if examined.is_some_and(|examined| examined.outcome.is_ok()) {
                " " a.button href={ "/evidence/" (run) "/report" } { "Read the report" }
            }
        }
    }
}

fn examined(evidence: &Evidence, bytes: &[u8], key: &PublicKey) -> Examined {
    let mut held = Vec::new();
    let outcome = examine(bytes, key, &mut |check| held.push(check));
    Examined { recorded: Digest::of_bytes(bytes) == evidence.bundle.sha256, held, outcome }
}

fn verdict(examined: &Examined) -> Markup {
    let good = examined.recorded && examined.outcome.is_ok();
    html! {
        section aria-labelledby="verified" {
            h2 #verified { @if good { "Verified just now" } @else { "This does not hold" } }
            ol.checks {
                (line(Some(examined.recorded), "The file has the sha256 that was recorded when it was put together."))
                @for check in Check::ALL { (line(passed(examined, check), check.says())) }
            }
            @match &examined.outcome {
                Ok(verified) => p { (Seen(&verified.summary())) },
                Err(fault) => div.notice role="alert" { p { strong { (Seen(&fault.to_string())) } } },
            }
        }
    }
}

/// Whether a check passed; none, if it was not reached.
fn passed(examined: &Examined, check: Check) -> Option<bool> {
    let reached = examined.held.len();
    let place = Check::ALL.iter().position(|known| *known == check).unwrap_or(usize::MAX);
    match place {
        place if place < reached => Some(true),
        place if place == reached => Some(false),
        _ => None,
    }
}

fn line(passed: Option<bool>, says: &str) -> Markup {
    let (class, shape, word) = match passed {
        Some(true) => ("good", "✓", "holds"),
        Some(false) => ("bad", "✕", "does not hold"),
        None => ("idle", "·", "not looked at"),
    };
    html! {
        li { span class={ "status " (class) } { span aria-hidden="true" { (shape) } " " span.hidden { (word) } } " " (says) }
    }
}
