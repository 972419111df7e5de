//! A server in the background of this process.

use axum::Router;
use http_server::{ConnectionLimits, RunningServer};
use tokio::net::TcpListener;

use crate::error::CliError;

/// Stops serving when it is dropped.
pub(crate) struct BackgroundServer(RunningServer);

impl BackgroundServer {
    pub(crate) fn start(listener: TcpListener, router: Router) -> Result<Self, CliError> {
        let running = RunningServer::start(listener, router, ConnectionLimits::for_process());
        running.map(Self).map_err(|source| CliError::Start { what: "the server", source })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.address())
    }
}
