//! The webhook handler for ServiceNow, GitHub, and any sender that signs its requests.
//!
//! A delivery is size-checked, authenticated on its raw bytes, parsed, and passed to the engine. The reply is 202 only
//! after the event is durable. An unauthenticated sender learns nothing: an unknown tenant, an unknown source and a wrong
//! signature get the same response after the same work. Every refused delivery is logged and counted.

mod auth;
mod github_event;
mod parse;
mod refused;
mod scheme;

use bytes::Bytes;
use domain::{InboxStatus, Millis, Refusal, RunId, Source, TenantId, TraceContext, json as strict_json};
use engine::{AcceptResult, Engine, EngineError, InboundEvent};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use serde_json::json;
use store::{Store, trace};
use tokio::time::timeout;

use crate::response::{json, problem, single_header};
use auth::Sender;
pub use auth::{InvalidWebhookAuth, WebhookAuth};
use refused::RefusedDelivery;
pub use scheme::{AuthScheme, SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// The size limit of a delivery. A ServiceNow record has a few kilobytes. GitHub's limit is 25 MB, but its large
/// deliveries contain nothing that a workflow reads.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// When a sender should retry after the store did not respond.
const RETRY_AFTER_SECS: &str = "5";

/// How long the store may take. Lambda ends the function two seconds later (`infra/modules/function`), and the sender
/// would get the gateway's error instead of ours.
const ANSWER_WITHIN: Millis = Millis::secs(8);

/// Handles a delivery to `/webhook/SOURCE/TENANT`. The path can start with the name of a gateway's stage.
pub async fn deliver<S: Store>(
    engine: &Engine<S>,
    auth: &WebhookAuth,
    request: &Request<Bytes>,
) -> Response<String> {
    match read_event(engine, auth, request) {
        Err(response) => response,
        Ok(None) => json(StatusCode::OK, &json!({ "status": "pong" })),
        Ok(Some(event)) => {
            let (tenant, source) = (event.tenant.clone(), event.source);
            let accepting = trace::with_parent(trace_parent(request), engine.admission().accept(event));
            match timeout(ANSWER_WITHIN.std(), accepting).await {
                Ok(accepted) => to_response(accepted, &tenant, source),
                Err(_) => timed_out(),
            }
        }
    }
}

/// The sender's trace context, if it sends a valid one.
fn trace_parent(request: &Request<Bytes>) -> Option<TraceContext> {
    single_header(request.headers(), TraceContext::HEADER)?.parse().ok()
}

/// The response to every request that is not authenticated, for any reason.
pub fn unauthenticated() -> Response<String> {
    problem(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", "the request is not authenticated")
}

/// Records and answers a delivery to `path` that is too large to authenticate. The log names the tenant and the source if
/// both are configured.
pub fn too_large(auth: &WebhookAuth, path: &str) -> Response<String> {
    match source_and_tenant(path).and_then(|(source, tenant)| auth.configured(tenant, source)) {
        Some((tenant, source)) => RefusedDelivery::TooLarge.record(&tenant, source),
        None => RefusedDelivery::TooLarge.response(),
    }
}

/// The source and the tenant in a path.
fn source_and_tenant(path: &str) -> Option<(&str, &str)> {
    let segments: Vec<&str> = path.split('/').collect();
    let [.., "webhook", source, tenant] = &*segments else { return None };
    Some((source, tenant))
}

/// The event for the engine; `None` for a ping. The body is not parsed before it is authenticated.
#[expect(clippy::result_large_err, reason = "the error is the response, and is returned once")]
fn read_event<S: Store>(
    engine: &Engine<S>,
    auth: &WebhookAuth,
    request: &Request<Bytes>,
) -> Result<Option<InboundEvent>, Response<String>> {
    let (headers, body, path) = (request.headers(), request.body(), request.uri().path());
    if body.len() > BODY_BYTES_MAX {
        return Err(too_large(auth, path));
    }
    let Some((source, tenant)) = source_and_tenant(path) else { return Err(unauthenticated()) };
    let sender = auth.authenticate(tenant, source, headers, body, engine.now());
    let sender = sender.ok_or_else(unauthenticated)?;
    let (tenant, source) = (sender.tenant.clone(), sender.source);
    parse_event(sender, headers, body).map_err(|refused| refused.record(&tenant, source))
}

fn parse_event(
    sender: Sender,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Option<InboundEvent>, RefusedDelivery> {
    if !is_json(headers) {
        return Err(RefusedDelivery::ContentType);
    }
    let body = strict_json::parse(body).map_err(RefusedDelivery::Json)?;
    parse::event(sender, headers, body).map_err(RefusedDelivery::Event)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = single_header(headers, CONTENT_TYPE.as_str()).and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The reply to a duplicate delivery: the outcome of the first one, and why it was rejected. The reason is bounded and
/// made of names and of the sender's own text.
fn duplicate(run: &RunId, status: &InboxStatus) -> Response<String> {
    // A delivery that joined another run reports that run.
    let run = if let InboxStatus::Joined { run } = status { run } else { run };
    let mut body = json!({ "run": run, "status": "duplicate", "outcome": json!(status)["status"] });
    if let InboxStatus::Rejected { reason, .. } = status {
        body["reason"] = json!(reason);
    }
    json(if *status == InboxStatus::Pending { StatusCode::ACCEPTED } else { StatusCode::OK }, &body)
}

fn to_response(
    accepted: Result<AcceptResult, EngineError>,
    tenant: &TenantId,
    source: Source,
) -> Response<String> {
    match accepted {
        Ok(AcceptResult { run, new: true, .. }) => {
            json(StatusCode::ACCEPTED, &json!({ "run": run.run, "status": "accepted" }))
        }
        Ok(AcceptResult { run, new: false, status }) => duplicate(&run.run, &status),
        Err(EngineError::Refused(refusal @ Refusal::KeyConflict { .. })) => {
            RefusedDelivery::Conflict(refusal.to_string()).record(tenant, source)
        }
        Err(EngineError::BadInput { source: error, .. }) => {
            RefusedDelivery::Json(error).record(tenant, source)
        }
        Err(error) => {
            tracing::error!(event = "webhook_accept_failed", error = %engine::error_chain(&error), "webhook not accepted");
            unavailable("the delivery was not accepted; send it again")
        }
    }
}

/// The store did not respond in time. If it stored the event, the sender's retry is answered as a duplicate.
fn timed_out() -> Response<String> {
    tracing::error!(
        event = "webhook_accept_failed",
        timeout_ms = ANSWER_WITHIN.0,
        "webhook accept timed out"
    );
    unavailable("the outcome is unknown; send the delivery again")
}

fn unavailable(detail: &str) -> Response<String> {
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECS));
    response
}
