//! The evidence of a run, verified on every view.

use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{Html, IntoResponse as _, Response};
use domain::{Digest, Evidence, RunId};
use engine::EngineError;
use evidence::{Check, PublicKey, TrustedKeys, Verified, VerifyError, verify_with_progress};
use maud::{Markup, html};
use store::Store;
use views::time::timestamp;

use crate::Shared;
use crate::extract::{PathParams, SessionUser};
use crate::guard::REPORT_POLICY;
use crate::layout::{self, MenuItem, Page, Stream, facts};
use crate::page_error::PageError;
use crate::text::InlineText;

struct Verification {
    /// Whether the bundle has the recorded hash.
    hash_matches: bool,
    passed: Vec<Check>,
    outcome: Result<Verified, VerifyError>,
}

pub(crate) async fn show<S: Store>(
    user: SessionUser<S>,
    State(console): State<Shared<S>>,
    PathParams(run): PathParams<String>,
) -> Result<Html<String>, PageError> {
    let run = run_id(&run)?;
    let title = format!("Evidence of {run}");
    let (live, stream) = match user.handle.evidence(&run).await {
        Ok((evidence, bytes)) => (bundle_page(&run, &evidence, &bytes, console.keys.as_ref()), Stream::None),
        Err(EngineError::NoEvidence { .. }) => (no_evidence(&run), Stream::Poll),
        Err(error) => return Err(error.into()),
    };
    let page = Page {
        title: &title,
        menu_item: MenuItem::Runs,
        stream,
        head: html! { h1 { "Evidence" } p.soft { "of run " a href={ "/runs/" (run) } { code { (run) } } } },
        live,
        foot: html! {},
    };
    Ok(Html(layout::page(&user, &page).into_string()))
}

pub(crate) async fn bundle<S: Store>(
    user: SessionUser<S>,
    PathParams(run): PathParams<String>,
) -> Result<Response, PageError> {
    let run = run_id(&run)?;
    let (_, bytes) = user.handle.evidence(&run).await?;
    let file = format!("attachment; filename=\"{run}.bundle.json\"");
    Ok(([(CONTENT_TYPE, "application/json"), (CONTENT_DISPOSITION, file.as_str())], bytes).into_response())
}

pub(crate) async fn report<S: Store>(
    user: SessionUser<S>,
    State(console): State<Shared<S>>,
    PathParams(run): PathParams<String>,
) -> Result<Response, PageError> {
    let run = run_id(&run)?;
    let (_, bytes) = user.handle.evidence(&run).await?;
    // There is no report of evidence that does not verify.
    let verified =
        console.keys.as_ref().and_then(|keys| evidence::verify(&bytes, keys.signer_of(&bytes)).ok());
    let verified = verified.ok_or_else(|| PageError::not_found("report"))?;
    Ok(([(CONTENT_SECURITY_POLICY, REPORT_POLICY)], Html(evidence::html(&verified))).into_response())
}

fn run_id(run: &str) -> Result<RunId, PageError> {
    RunId::new(run).map_err(|_| PageError::not_found("run"))
}

fn no_evidence(run: &RunId) -> Markup {
    html! {
        p { "No evidence yet. A worker builds it after the run ends." }
        p { a href={ "/runs/" (run) } { "Back to the run" } }
    }
}

fn bundle_page(run: &RunId, evidence: &Evidence, bytes: &[u8], keys: Option<&TrustedKeys>) -> Markup {
    let about = facts(&[
        ("sha256", html! { code { (evidence.bundle.sha256) } }),
        ("Size", html! { (evidence.bundle.bytes) " bytes" }),
        ("Created", html! { (timestamp(evidence.recorded_at)) }),
        ("Log index", html! { (evidence.index) }),
    ]);
    let verification = keys.map(|keys| verify(evidence, bytes, keys.signer_of(bytes)));
    html! {
        (about)
        @match &verification {
            Some(verification) => (checks(verification)),
            None => p { "This server has no public key to verify the bundle. Verify it with " code { "countersign bundle verify" } "." },
        }
        p.links {
            a.button href={ "/evidence/" (run) "/bundle" } download { "Download bundle" }
            @if verification.is_some_and(|verification| verification.outcome.is_ok()) {
                " " a.button href={ "/evidence/" (run) "/report" } { "Open report" }
            }
        }
    }
}

fn verify(evidence: &Evidence, bytes: &[u8], key: &PublicKey) -> Verification {
    let mut passed = Vec::new();
    let outcome = verify_with_progress(bytes, key, &mut |check| passed.push(check));
    Verification { hash_matches: Digest::of_bytes(bytes) == evidence.bundle.sha256, passed, outcome }
}

fn checks(verification: &Verification) -> Markup {
    let good = verification.hash_matches && verification.outcome.is_ok();
    html! {
        section aria-labelledby="verified" {
            h2 #verified { @if good { "Verified just now" } @else { "Verification failed" } }
            ol.checks {
                (line(Some(verification.hash_matches), "The SHA-256 of the bundle matches the recorded one."))
                @for &check in Check::ALL { (line(result(verification, check), check.description())) }
            }
            @match &verification.outcome {
                Ok(verified) => p { (InlineText(&verified.summary())) },
                Err(fault) => div.notice role="alert" { p { strong { (InlineText(&fault.to_string())) } } },
            }
        }
    }
}

/// Whether a check passed; `None` if it was not reached.
fn result(verification: &Verification, check: Check) -> Option<bool> {
    let passed = verification.passed.len();
    let position = Check::ALL.iter().position(|known| *known == check).unwrap_or(usize::MAX);
    match position {
        position if position < passed => Some(true),
        position if position == passed => Some(false),
        _ => None,
    }
}

fn line(passed: Option<bool>, text: &str) -> Markup {
    let (class, shape, word) = match passed {
        Some(true) => ("good", "✓", "passed"),
        Some(false) => ("bad", "✕", "failed"),
        None => ("idle", "·", "not checked"),
    };
    html! {
        li { span class={ "status " (class) } { span aria-hidden="true" { (shape) } " " span.hidden { (word) } } " " (text) }
    }
}
