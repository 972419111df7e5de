//! The handlers as axum routes, for processes that serve HTTP themselves.

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::routing::post;
use bytes::Bytes;
use engine::Engine;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use store::Store;

use crate::slack::{self, SlackInstallations};
use crate::webhook::{self, WebhookAuth};

const WEBHOOK: &str = "/webhook/{source}/{tenant}";

/// The path for Slack interactions. The tenant follows as the last segment.
pub const SLACK_INTERACTIONS: &str = "/slack/interactions";

const SLACK_COMMANDS: &str = "/slack/commands";

type RouteState<S, A> = Arc<(Arc<Engine<S>>, A)>;

pub fn webhooks<S: Store>(engine: Arc<Engine<S>>, auth: WebhookAuth) -> Router {
    let limit = DefaultBodyLimit::max(webhook::BODY_BYTES_MAX);
    Router::new().route(WEBHOOK, post(deliver::<S>)).layer(limit).with_state(Arc::new((engine, auth)))
}

/// A body that axum cannot read gets the same error response as in the Lambda function.
async fn deliver<S: Store>(
    State(state): State<RouteState<S, WebhookAuth>>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Response<String> {
    match body {
        Ok(body) => webhook::deliver(&state.0, &state.1, &Request::from_parts(parts, body)).await,
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            webhook::too_large(&state.1, parts.uri.path())
        }
        Err(_) => webhook::unauthenticated(),
    }
}

/// The routes for Slack interactions and slash commands.
pub fn slack<S: Store>(engine: Arc<Engine<S>>, installations: SlackInstallations) -> Router {
    let with_tenant = |path: &str| format!("{path}/{{tenant}}");
    Router::new()
        .route(&with_tenant(SLACK_INTERACTIONS), post(on_slack::<S>))
        .route(&with_tenant(SLACK_COMMANDS), post(on_slack::<S>))
        .with_state(Arc::new((engine, installations)))
}

async fn on_slack<S: Store>(
    State(state): State<RouteState<S, SlackInstallations>>,
    parts: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Response<String> {
    match body {
        Ok(body) => slack::handle(&state.0, &state.1, &Request::from_parts(parts, body)).await,
        Err(_) => slack::unsigned(),
    }
}
