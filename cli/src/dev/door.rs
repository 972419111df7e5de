//! The routes on which Slack and other systems deliver what they have to tell, over plain HTTP on the loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use engine::Engine;
use functions::slack::{self, SlackDoor};
use functions::webhook::{self, Doors};
use notify::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use store::Store;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::error::CliError;

/// Where clicks are delivered.
pub(crate) const PATH: &str = "/slack/interactions";

/// Where people's commands are delivered.
const COMMANDS: &str = "/slack/commands";

/// Where other systems deliver.
const WEBHOOK: &str = "/webhook/{source}/{tenant}";

/// One byte more than is accepted, so that whoever sends too much is told so by the door itself.
const BODY_BYTES_MAX: usize = webhook::BODY_BYTES_MAX + 1;

/// What the routes for Slack need.
type Shared<S> = Arc<(Arc<Engine<S>>, SlackDoor)>;

/// What the route for everybody else needs.
type Opened<S> = Arc<(Arc<Engine<S>>, Doors)>;

/// The routes for clicks and commands.
pub(crate) fn router<S: Store>(engine: Arc<Engine<S>>, door: SlackDoor) -> Router {
    let routes = Router::new().route(PATH, post(click::<S>)).route(COMMANDS, post(command::<S>));
    routes.with_state(Arc::new((engine, door)))
}

/// The route for everybody else.
pub(crate) fn webhooks<S: Store>(engine: Arc<Engine<S>>, doors: Doors) -> Router {
    let limit = DefaultBodyLimit::max(BODY_BYTES_MAX);
    Router::new().route(WEBHOOK, post(deliver::<S>)).layer(limit).with_state(Arc::new((engine, doors)))
}

async fn click<S: Store>(State(shared): State<Shared<S>>, headers: HeaderMap, body: Bytes) -> Response {
    served(Box::pin(slack::interaction(&shared.0, &shared.1, from_slack(&headers, &body))).await)
}

async fn command<S: Store>(State(shared): State<Shared<S>>, headers: HeaderMap, body: Bytes) -> Response {
    served(slack::command(&shared.0, &shared.1, from_slack(&headers, &body)).await)
}

fn from_slack<'a>(headers: &'a HeaderMap, body: &'a Bytes) -> slack::Request<'a> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    slack::Request { timestamp: text(TIMESTAMP_HEADER), signature: text(SIGNATURE_HEADER), body }
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

fn served(reply: functions::http::Response) -> Response {
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

/// A server of this process. It ends when this is dropped.
pub(crate) struct Served {
    address: SocketAddr,
    task: AbortHandle,
}

impl Served {
    /// Serves `router` on `listener`.
    pub(crate) fn start(listener: TcpListener, router: Router) -> Result<Self, CliError> {
        let failed = |source| CliError::Start { what: "the server", source };
        let address = listener.local_addr().map_err(failed)?;
        let task = tokio::spawn(async move {
            // The listener only fails for good when the process is short of files; the next request tells.
            let _ended = axum::serve(listener, router).await;
        });
        Ok(Self { address, task: task.abort_handle() })
    }

    /// Where it is: `http://127.0.0.1:…`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}
