//! The health endpoint of the worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use countersign_worker::{HealthStatus, WorkerHealth};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::Failure;

/// The timeout of a health check.
const ASK_FOR: Duration = Duration::from_secs(3);

/// A status line and a few headers.
const REPLY_BYTES_MAX: u64 = 4 * 1024;

/// Serves until dropped.
pub(crate) struct Serving {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Serving {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `GET /health` at `address`: 503 and the reason if the worker should be replaced, otherwise 200.
pub(crate) async fn serve(address: SocketAddr, health: Arc<WorkerHealth>) -> Result<Serving, Failure> {
    let listener =
        TcpListener::bind(address).await.map_err(|error| format!("listen at {address}: {error}"))?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/health", get(answer)).with_state(health);
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(event = "health_endpoint_failed", %error, "health endpoint failed");
        }
    });
    Ok(Serving { address, task })
}

async fn answer(State(health): State<Arc<WorkerHealth>>) -> (StatusCode, Json<Value>) {
    match health.status() {
        HealthStatus::Healthy => (StatusCode::OK, Json(json!({ "status": "healthy" }))),
        HealthStatus::Degraded(why) => (StatusCode::OK, Json(json!({ "status": "degraded", "reason": why }))),
        HealthStatus::Unhealthy(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "unhealthy", "reason": why })))
        }
    }
}

/// Queries the worker at `url`; an error if it is unhealthy or does not reply.
pub(crate) async fn ask(url: &str) -> Result<(), Failure> {
    let rest = url.strip_prefix("http://").ok_or("the URL must start with http://")?;
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let asked = async {
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut reply = String::new();
        stream.take(REPLY_BYTES_MAX).read_to_string(&mut reply).await?;
        Ok::<_, Failure>(reply)
    };
    let reply = tokio::time::timeout(ASK_FOR, asked).await.map_err(|_| "the health check timed out")??;
    if reply.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(reply.lines().last().filter(|line| !line.is_empty()).unwrap_or("no answer").to_owned().into())
}
