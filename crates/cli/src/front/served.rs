//! A server of this process, for whoever has more to do than to serve.

use std::net::SocketAddr;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::error::CliError;

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
