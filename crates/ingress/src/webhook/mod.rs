//! The door for systems outside that have something to tell: ServiceNow, GitHub, or anybody who signs as we ask.
//!
//! What comes is measured, proved on its raw bytes, read, and handed to the engine; the sender is told that it
//! was accepted when it is durable, and not before. Whoever cannot prove anything learns nothing: an unknown
//! tenant, an unknown source and a wrong signature are refused in the same words, after the same work.

mod auth;
mod parse;
mod scheme;

use std::time::Duration;

use domain::{Code, InboxStatus, Refusal, RunId, TenantId, TraceContext, json};
use engine::{AcceptResult, Engine, EngineError, InboundEvent};
use serde_json::{Value, json};
use store::{Store, trace};
use tokio::time::timeout;

pub use crate::http::{Headers, Response};
pub use auth::{InvalidWebhookAuth, WebhookAuth};
pub use scheme::{Proof, SIGNATURE_HEADER, TIMESTAMP_HEADER};

use parse::{ParsedEvent, Unusable};

/// What one delivery may hold. GitHub's largest are 25 MB, of things that no workflow reads; a record of
/// ServiceNow has some kilobytes.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// When a sender may come again after the store did not answer.
const RETRY_AFTER_SECS: &str = "5";

/// How long the store may take. A function is ended two seconds later (`infra/modules/function`), and its sender would be
/// told nothing of ours.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);

/// A delivery as it came in, before anything is believed of it.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The source, from the path.
    pub source: &'a str,
    /// The tenant, from the path.
    pub tenant: &'a str,
    /// The headers.
    pub headers: Headers<'a>,
    /// The raw bytes.
    pub body: &'a [u8],
}

/// Takes in what somebody outside has to tell.
pub async fn deliver<S: Store>(engine: &Engine<S>, doors: &WebhookAuth, request: Request<'_>) -> Response {
    match admit(engine, doors, &request) {
        Err(response) => response,
        Ok(None) => Response::json(200, &json!({ "status": "pong" })),
        Ok(Some(knock)) => {
            let accepting = trace::within_told(told_trace(&request), engine.accept(knock));
            timeout(ANSWER_WITHIN, accepting).await.map_or_else(|_| late(), told)
        }
    }
}

/// The work outside that led to a delivery, if whoever sent it tells.
fn told_trace(request: &Request<'_>) -> Option<TraceContext> {
    request.headers.only(TraceContext::HEADER)?.parse().ok()
}

/// The refusal of whatever is not proved, for whichever reason.
pub fn unproved() -> Response {
    Response::problem(401, "UNPROVED", "the request does not prove where it comes from")
}

/// The refusal of what is too large to be looked at.
pub fn too_large() -> Response {
    Response::problem(413, "TOO_LARGE", &format!("a delivery has at most {BODY_BYTES_MAX} bytes"))
}

/// What is handed to the engine, if anything is to be started. Nothing is read before it is proved.
fn admit<S: Store>(
    engine: &Engine<S>,
    doors: &WebhookAuth,
    request: &Request<'_>,
) -> Result<Option<InboundEvent>, Response> {
    let Request { headers, body, .. } = request;
    if body.len() > BODY_BYTES_MAX {
        return Err(too_large());
    }
    let entered = doors.authenticate(request.tenant, request.source, headers, body, engine.now());
    let Some((tenant, source, proof)) = entered else { return Err(unproved()) };
    if !is_json(headers) {
        let detail = "the content type must be application/json";
        return Err(Response::problem(415, "UNSUPPORTED_MEDIA_TYPE", detail));
    }
    let value = json::parse(body).map_err(|error| unusable(&error.to_string()))?;
    own_tenant(&tenant, &value).map_err(|error| unusable(&error.to_string()))?;
    let letter = ParsedEvent::read(source, headers, value).map_err(|error| unusable(&error.to_string()))?;
    let knock = |letter: ParsedEvent| {
        let ParsedEvent { key, about, record, dedupe_key, body } = letter;
        InboundEvent { tenant, key, source, about, record, proof, dedupe_key, body, asked: None }
    };
    Ok(letter.map(knock))
}

fn is_json(headers: &Headers<'_>) -> bool {
    let kind = headers.only("content-type").and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whoever names a tenant in the body means the one whose door this is, or has taken the wrong one.
fn own_tenant(tenant: &TenantId, body: &Value) -> Result<(), Unusable> {
    match body.get("tenant") {
        None => Ok(()),
        Some(Value::String(named)) if named == tenant.as_str() => Ok(()),
        Some(_) => Err(Unusable::OtherTenant),
    }
}

fn unusable(why: &str) -> Response {
    Response::problem(400, "UNUSABLE", why)
}

/// The reply to a duplicate delivery: the outcome of the first one, and why it was rejected. The reason is bounded and
/// made of names and of the sender's own text.
fn duplicate(run: &RunId, status: &InboxStatus) -> Response {
    // A delivery that joined another run reports that run.
    let run = if let InboxStatus::Joined { run } = status { run } else { run };
    let mut body = json!({ "run": run, "status": "duplicate", "outcome": json!(status)["status"] });
    if let InboxStatus::Rejected { reason, .. } = status {
        body["reason"] = json!(reason);
    }
    Response::json(if *status == InboxStatus::Pending { 202 } else { 200 }, &body)
}

fn told(accepted: Result<AcceptResult, EngineError>) -> Response {
    match accepted {
        Ok(AcceptResult { run, new: true, .. }) => {
            Response::json(202, &json!({ "run": run.run, "status": "accepted" }))
        }
        Ok(AcceptResult { run, new: false, status }) => duplicate(&run.run, &status),
        Err(EngineError::Refused(refusal @ Refusal::KeyConflict { .. })) => {
            tracing::info!(code = %Code::IdempotencyConflict, "refused");
            Response::problem(409, Code::IdempotencyConflict.as_str(), &refusal.to_string())
        }
        Err(EngineError::BadInput { source, .. }) => unusable(&source.to_string()),
        Err(error) => {
            tracing::error!(error = %engine::told(&error), "a delivery was not accepted");
            unavailable("nothing was accepted; please send it again")
        }
    }
}

/// The store did not answer. What it may have kept is known when it comes again, and announced then.
fn late() -> Response {
    tracing::error!(within = ?ANSWER_WITHIN, "a delivery was not accepted in time");
    unavailable("nobody knows whether it was accepted; please send it again")
}

fn unavailable(detail: &str) -> Response {
    Response::problem(503, "UNAVAILABLE", detail).with("retry-after", RETRY_AFTER_SECS)
}
