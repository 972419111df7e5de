//! The REST API from the other side.
//!
//! A [`Client`] has a method for each route and speaks in the documents of [`api::wire`]. Whether it reaches a server
//! over the network or the routes in its own process is the [`Transport`]'s business alone, so whoever uses it has one
//! way of doing things.

mod ask;
mod error;
mod remote;
mod routes;
mod stream;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

pub use error::{ClientError, Problem};
pub use remote::Remote;
pub use routes::{ApprovalFilter, RunFilter, Started};
pub use stream::Stream;

use ask::{Ask, Reply};

/// More than any document or bundle has; what is larger did not come from a server of ours.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How requests get there.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Over the network.
    Server(Remote),
    /// To the routes in this process.
    InProcess(Router),
}

/// The API, a method for each route.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Transport,
}

impl Client {
    /// A client that speaks over `transport`.
    pub fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// Asks, and reads the document that comes back.
    async fn document<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, ClientError> {
        self.reply(&ask).await?.document()
    }

    /// Asks; a no is an error.
    async fn reply(&self, ask: &Ask) -> Result<Reply, ClientError> {
        let reply = match &self.transport {
            Transport::Server(remote) => remote.ask(ask).await?,
            Transport::InProcess(router) => here(router.clone(), ask).await?,
        };
        if reply.status.is_success() { Ok(reply) } else { Err(reply.problem()) }
    }
}

/// Asks the routes in this process.
async fn here(router: Router, ask: &Ask) -> Result<Reply, ClientError> {
    let mut request = Request::builder().method(ask.method.clone()).uri(ask.path());
    for (name, value) in ask.headers() {
        request = request.header(name, value);
    }
    if ask.body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = ask.body.clone().map_or_else(Body::empty, Body::from);
    let request = request.body(body).map_err(|error| ClientError::unreadable(error.to_string()))?;
    let response = match router.oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let status = response.status();
    let bytes = to_bytes(response.into_body(), REPLY_BYTES_MAX).await;
    let body = bytes.map_err(|error| ClientError::unreadable(error.to_string()))?.to_vec();
    Ok(Reply { status, body })
}
