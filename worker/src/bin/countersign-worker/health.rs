//! The health endpoint of the worker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use countersign_worker::{HealthStatus, WorkerHealth};
use http_server::{ConnectionLimits, RunningServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Failure;

/// The timeout of a health check.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// A status line and a few headers.
const REPLY_BYTES_MAX: u64 = 4 * 1024;

/// Serves `GET /health` at `address`: 503 and the reason if the worker should be replaced, otherwise 200. It stops when
/// the result is dropped.
pub(crate) async fn serve(address: SocketAddr, health: Arc<WorkerHealth>) -> Result<RunningServer, Failure> {
    let listener =
        TcpListener::bind(address).await.map_err(|error| format!("listen at {address}: {error}"))?;
    let router = Router::new().route("/health", get(health_response)).with_state(health);
    Ok(RunningServer::start(listener, router, ConnectionLimits::for_monitoring())?)
}

async fn health_response(State(health): State<Arc<WorkerHealth>>) -> (StatusCode, Json<Value>) {
    match health.status() {
        HealthStatus::Healthy => (StatusCode::OK, Json(json!({ "status": "healthy" }))),
        HealthStatus::Degraded(why) => (StatusCode::OK, Json(json!({ "status": "degraded", "reason": why }))),
        HealthStatus::Unhealthy(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "unhealthy", "reason": why })))
        }
    }
}

/// Queries the worker at `url`; an error if it is unhealthy or does not reply.
pub(crate) async fn query(url: &str) -> Result<(), Failure> {
    let rest = url.strip_prefix("http://").ok_or("the URL must start with http://")?;
    let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let exchange = async {
        let mut stream = TcpStream::connect(host).await?;
        let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut reply = String::new();
        stream.take(REPLY_BYTES_MAX).read_to_string(&mut reply).await?;
        Ok::<_, Failure>(reply)
    };
    let reply =
        tokio::time::timeout(QUERY_TIMEOUT, exchange).await.map_err(|_| "the health check timed out")??;
    if reply.starts_with("HTTP/1.1 200 ") {
        return Ok(());
    }
    Err(reply.lines().last().filter(|line| !line.is_empty()).unwrap_or("no answer").to_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that opens connections and sends half requests must not make ECS replace the worker.
    #[tokio::test]
    async fn half_requests_do_not_fail_the_health_check() {
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = serve(any_port, Arc::new(WorkerHealth::default())).await.unwrap();
        let mut open = Vec::new();
        for _ in 0..100 {
            let mut half = TcpStream::connect(server.address()).await.unwrap();
            half.write_all(b"GET /health HTTP/1.1\r\nHost: a\r\n").await.unwrap();
            open.push(half);
        }
        query(&format!("http://{}/health", server.address())).await.unwrap();
        let oldest = tokio::time::timeout(QUERY_TIMEOUT, open[0].read(&mut [0])).await;
        assert!(oldest.is_ok_and(|read| !matches!(read, Ok(1..))), "connections are limited");
    }
}
