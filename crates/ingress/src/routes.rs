//! The handlers as axum routes, for processes that serve HTTP themselves.

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
use crate::slack::{self, SlackInstallations, SlackRequest};
use crate::webhook::{self, WebhookAuth, WebhookRequest};

const WEBHOOK: &str = "/webhook/{source}/{tenant}";

/// The path for Slack interactions. The tenant follows as the last segment.
pub const SLACK_INTERACTIONS: &str = "/slack/interactions";

const SLACK_COMMANDS: &str = "/slack/commands";

type RouteState<S, A> = Arc<(Arc<Engine<S>>, A)>;

pub fn webhooks<S: Store>(engine: Arc<Engine<S>>, auth: WebhookAuth) -> Router {
    let limit = DefaultBodyLimit::max(webhook::BODY_BYTES_MAX);
    Router::new().route(WEBHOOK, post(deliver::<S>)).layer(limit).with_state(Arc::new((engine, auth)))
}

/// A request that axum cannot extract gets the same error response as in the Lambda function.
async fn deliver<S: Store>(
    State(state): State<RouteState<S, WebhookAuth>>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let reply = match (path, body) {
        (_, Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => webhook::too_large(),
        (Ok(Path((source, tenant))), Ok(body)) => {
            let headers = text_headers(&headers);
            let request = WebhookRequest { source: &source, tenant: &tenant, headers, body: &body };
            webhook::deliver(&state.0, &state.1, request).await
        }
        _ => webhook::unauthenticated(),
    };
    to_response(reply)
}

/// The routes for Slack interactions and slash commands.
pub fn slack<S: Store>(engine: Arc<Engine<S>>, installations: SlackInstallations) -> Router {
    let with_tenant = |path: &str| format!("{path}/{{tenant}}");
    let route =
        |kind| post(move |state, tenant, headers, body| on_slack::<S>(kind, state, tenant, headers, body));
    Router::new()
        .route(&with_tenant(SLACK_INTERACTIONS), route(SlackRoute::Interaction))
        .route(&with_tenant(SLACK_COMMANDS), route(SlackRoute::Command))
        .with_state(Arc::new((engine, installations)))
}

#[derive(Clone, Copy)]
enum SlackRoute {
    Interaction,
    Command,
}

async fn on_slack<S: Store>(
    route: SlackRoute,
    State(state): State<RouteState<S, SlackInstallations>>,
    tenant: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let (engine, installations) = &*state;
    let (Ok(Path(tenant)), Ok(body)) = (tenant, body) else { return to_response(slack::unsigned()) };
    let request = slack_request(&headers, &body);
    let reply = match (installations.of(&tenant), route) {
        (Ok(installation), SlackRoute::Interaction) => {
            Box::pin(slack::interaction(engine, installation, request)).await
        }
        (Ok(installation), SlackRoute::Command) => slack::command(engine, installation, request).await,
        (Err(reply), _) => reply,
    };
    to_response(reply)
}

fn slack_request<'a>(headers: &'a HeaderMap, body: &'a Bytes) -> SlackRequest<'a> {
    let headers = text_headers(headers);
    let (timestamp, signature) = (headers.only(TIMESTAMP_HEADER), headers.only(SIGNATURE_HEADER));
    SlackRequest { timestamp, signature, body }
}

/// The headers whose values are visible ASCII. No handler reads any other.
fn text_headers(headers: &HeaderMap) -> Headers<'_> {
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect()
}

fn to_response(reply: crate::http::Response) -> Response {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, reply.body).into_response();
    for (name, value) in reply.headers {
        // The handlers set only values that are valid in a header.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
