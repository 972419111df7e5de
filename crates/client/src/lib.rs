//! The client of the REST API.
//!
//! A [`Client`] has a method for each route and uses the documents of [`api_types`]. The [`Transport`] decides whether
//! a request goes to a server over the network or to the routes in the same process.

mod error;
mod remote;
mod request;
mod routes;
mod stream;

#[cfg(feature = "in-process")]
mod in_process;

use serde::de::DeserializeOwned;

pub use api_types::Problem;
pub use error::ClientError;
pub use remote::Remote;
pub use routes::{ApprovalFilter, RunFilter, RunStart};
pub use stream::Stream;

use request::{ApiRequest, Reply};

/// Larger than any document or evidence bundle; a larger reply does not come from this API.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How requests reach the API.
#[derive(Debug, Clone)]
pub enum Transport {
    Server(Remote),
    #[cfg(feature = "in-process")]
    InProcess(axum::Router),
}

/// The API, with a method for each route.
#[derive(Debug, Clone)]
pub struct Client {
    transport: Transport,
}

impl Client {
    pub fn new(transport: Transport) -> Self {
        Self { transport }
    }

    async fn document<T: DeserializeOwned>(&self, call: ApiRequest) -> Result<T, ClientError> {
        self.reply(&call).await?.document()
    }

    /// Sends the request. An error response is an error.
    async fn reply(&self, call: &ApiRequest) -> Result<Reply, ClientError> {
        let reply = match &self.transport {
            Transport::Server(remote) => remote.send(call).await?,
            #[cfg(feature = "in-process")]
            Transport::InProcess(router) => in_process::call(router.clone(), call).await?,
        };
        if reply.status.is_success() { Ok(reply) } else { Err(reply.problem()) }
    }
}
