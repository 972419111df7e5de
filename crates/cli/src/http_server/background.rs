//! A server in the background of this process.

use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::connections::{ConnectionLimits, serve};
use crate::error::CliError;

/// Stops serving when it is dropped.
pub(crate) struct BackgroundServer {
    address: SocketAddr,
    task: AbortHandle,
}

impl BackgroundServer {
    pub(crate) fn start(listener: TcpListener, router: Router) -> Result<Self, CliError> {
        let failed = |source| CliError::Start { what: "the server", source };
        let address = listener.local_addr().map_err(failed)?;
        let task =
            tokio::spawn(serve(listener, router, ConnectionLimits::of_process(), CancellationToken::new()));
        Ok(Self { address, task: task.abort_handle() })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for BackgroundServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
