//! What every simulated system shares: a port of its own, faults on demand, connections that can be cut.
//!
//! A lost reply is the fault that matters most: the request is worked on, and the connection ends without a
//! byte of an answer, so that nobody outside can tell what became of it.

mod fault;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

pub use fault::{Fault, Faults};

use wire::{Cut, Wires};

/// A server on the loopback; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    /// Serves `router` on a port that the operating system chooses, with `faults` in front of it.
    pub async fn start(router: Router, faults: &Faults) -> io::Result<Self> {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await?, router, faults)
    }

    /// Serves `router` on `listener`, with `faults` in front of it.
    pub fn start_on(listener: TcpListener, router: Router, faults: &Faults) -> io::Result<Self> {
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

    /// Where it is: `http://127.0.0.1:…`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An answer that is no, with a word about why.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused(pub(crate) StatusCode, pub(crate) &'static str);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, axum::Json(json!({ "message": self.1, "status": self.0.as_str() }))).into_response()
    }
}

/// The state behind `mutex`. A test that panicked while it held the lock has failed already.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
