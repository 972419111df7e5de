//! The REST API from the other side.
//!
//! A [`Client`] has a method for each route and speaks in the documents of [`api_types`]. Whether it reaches a server
//! over the network or the routes in its own process is the [`Transport`]'s business alone, so whoever uses it has one
//! way of doing things.

mod ask;
mod error;
mod remote;
mod routes;
mod stream;

#[cfg(feature = "in-process")]
mod in_process;

use serde::de::DeserializeOwned;

pub use error::{ClientError, Problem};
pub use remote::Remote;
pub use routes::{ApprovalFilter, RunFilter, Started};
pub use stream::Stream;

use ask::{Ask, Reply};

/// More than any document or bundle has; a larger reply did not come from this API.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How requests get there.
#[derive(Debug, Clone)]
pub enum Transport {
    /// Over the network.
    Server(Remote),
    /// To the routes in this process.
    #[cfg(feature = "in-process")]
    InProcess(axum::Router),
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
            #[cfg(feature = "in-process")]
            Transport::InProcess(router) => in_process::call(router.clone(), ask).await?,
        };
        if reply.status.is_success() { Ok(reply) } else { Err(reply.problem()) }
    }
}
