//! The server that all fakes share: a port of its own, fault injection, and connections that can be cut.
//!
//! The most important fault is a lost reply: the request is processed, and the connection closes without a reply, so the
//! client cannot know the outcome.

mod fault;
mod wire;

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

pub use fault::{FakeFault, FakeFaults};

use wire::{Cut, Wires};

/// A server on the loopback. Dropping it stops the server.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    /// Serves `router` on a free port, with fault injection.
    pub async fn start(router: Router, faults: &FakeFaults) -> io::Result<Self> {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await?, router, faults)
    }

    pub fn start_on(listener: TcpListener, router: Router, faults: &FakeFaults) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let service = router
            .layer(from_fn_with_state(faults.clone(), fault::inject))
            .into_make_service_with_connect_info::<Cut>();
        let serving = axum::serve(Wires(listener), service);
        let task = tokio::spawn(async move {
            let _ = serving.await;
        });
        Ok(Self { address, task: task.abort_handle() })
    }

    /// `http://127.0.0.1:…`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An error response with a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorReply(pub(crate) StatusCode, pub(crate) &'static str);

impl IntoResponse for ErrorReply {
    fn into_response(self) -> Response {
        (self.0, axum::Json(json!({ "message": self.1, "status": self.0.as_str() }))).into_response()
    }
}
