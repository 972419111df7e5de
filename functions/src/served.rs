//! The doors over plain HTTP, for whoever serves them itself: a laptop, a benchmark.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use engine::Engine;
use store::Store;

use crate::webhook::{self, Doors};

/// Where other systems deliver.
const WEBHOOK: &str = "/webhook/{source}/{tenant}";

/// One byte more than is accepted, so that whoever sends too much is told so by the door itself.
const BODY_BYTES_MAX: usize = webhook::BODY_BYTES_MAX + 1;

/// What the route needs.
type Opened<S> = Arc<(Arc<Engine<S>>, Doors)>;

/// The route by which other systems deliver.
pub fn webhooks<S: Store>(engine: Arc<Engine<S>>, doors: Doors) -> Router {
    let limit = DefaultBodyLimit::max(BODY_BYTES_MAX);
    Router::new().route(WEBHOOK, post(deliver::<S>)).layer(limit).with_state(Arc::new((engine, doors)))
}

async fn deliver<S: Store>(
    State(opened): State<Opened<S>>,
    Path((source, tenant)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // A header that is not text is one that nobody reads.
    let headers =
        headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    let request = webhook::Request { source: &source, tenant: &tenant, headers, body: &body };
    served(webhook::deliver(&opened.0, &opened.1, request).await)
}

/// What a door replies, as it is sent.
pub fn served(reply: crate::http::Response) -> Response {
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
