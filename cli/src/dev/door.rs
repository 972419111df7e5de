//! The routes on which Slack delivers what people say, over plain HTTP on the loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::post;
use engine::Engine;
use functions::served::served;
use functions::slack::{self, SlackDoor};
use notify::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use store::Store;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::error::CliError;

/// Where clicks are delivered.
pub(crate) const PATH: &str = "/slack/interactions";

/// Where people's commands are delivered.
const COMMANDS: &str = "/slack/commands";

/// What the routes for Slack need.
type Shared<S> = Arc<(Arc<Engine<S>>, SlackDoor)>;

/// The routes for clicks and commands.
pub(crate) fn router<S: Store>(engine: Arc<Engine<S>>, door: SlackDoor) -> Router {
    let routes = Router::new().route(PATH, post(click::<S>)).route(COMMANDS, post(command::<S>));
    routes.with_state(Arc::new((engine, door)))
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
