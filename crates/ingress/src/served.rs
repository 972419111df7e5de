//! The doors over plain HTTP, for whoever serves them itself: a server, a laptop, a benchmark.

use std::sync::Arc;

use ::slack::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use engine::Engine;
use store::Store;

use crate::http::Headers;
use crate::slack::{self, SlackInstallations};
use crate::webhook::{self, WebhookAuth};

/// Where other systems deliver.
const WEBHOOK: &str = "/webhook/{source}/{tenant}";

/// Where Slack delivers clicks, below which each tenant has its own address.
pub const CLICKS: &str = "/slack/interactions";

/// Where Slack delivers people's commands.
const COMMANDS: &str = "/slack/commands";

/// What a route needs.
type Opened<S, D> = Arc<(Arc<Engine<S>>, D)>;

/// The route by which other systems deliver.
pub fn webhooks<S: Store>(engine: Arc<Engine<S>>, doors: WebhookAuth) -> Router {
    let limit = DefaultBodyLimit::max(webhook::BODY_BYTES_MAX);
    Router::new().route(WEBHOOK, post(deliver::<S>)).layer(limit).with_state(Arc::new((engine, doors)))
}

/// What cannot be taken in is refused in the door's own words, as the function does.
async fn deliver<S: Store>(
    State(opened): State<Opened<S, WebhookAuth>>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let reply = match (path, body) {
        (_, Err(refused)) if refused.status() == StatusCode::PAYLOAD_TOO_LARGE => webhook::too_large(),
        (Ok(Path((source, tenant))), Ok(body)) => {
            let headers = read(&headers);
            let request = webhook::Request { source: &source, tenant: &tenant, headers, body: &body };
            webhook::deliver(&opened.0, &opened.1, request).await
        }
        _ => webhook::unproved(),
    };
    served(reply)
}

/// The routes by which Slack delivers clicks and commands.
pub fn slack<S: Store>(engine: Arc<Engine<S>>, doors: SlackInstallations) -> Router {
    let below = |address: &str| format!("{address}/{{tenant}}");
    let route =
        |what| post(move |state, tenant, headers, body| said::<S>(what, state, tenant, headers, body));
    Router::new()
        .route(&below(CLICKS), route(Said::Click))
        .route(&below(COMMANDS), route(Said::Command))
        .with_state(Arc::new((engine, doors)))
}

/// What Slack delivers.
#[derive(Clone, Copy)]
enum Said {
    Click,
    Command,
}

async fn said<S: Store>(
    what: Said,
    State(opened): State<Opened<S, SlackInstallations>>,
    tenant: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let (engine, doors) = &*opened;
    let (Ok(Path(tenant)), Ok(body)) = (tenant, body) else { return served(slack::unsigned()) };
    let request = from_slack(&headers, &body);
    let reply = match (doors.of(&tenant), what) {
        (Ok(door), Said::Click) => Box::pin(slack::interaction(engine, door, request)).await,
        (Ok(door), Said::Command) => slack::command(engine, door, request).await,
        (Err(reply), _) => reply,
    };
    served(reply)
}

fn from_slack<'a>(headers: &'a HeaderMap, body: &'a Bytes) -> slack::Request<'a> {
    let headers = read(headers);
    let (timestamp, signature) = (headers.only(TIMESTAMP_HEADER), headers.only(SIGNATURE_HEADER));
    slack::Request { timestamp, signature, body }
}

/// A header that is not text is one that nobody reads.
fn read(headers: &HeaderMap) -> Headers<'_> {
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect()
}

/// What a door replies, as it is sent.
fn served(reply: crate::http::Response) -> Response {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, reply.body).into_response();
    for (name, value) in reply.headers {
        // What we say ourselves can be said in a header.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
