//! `/readyz` reports whether the store responds, and `/healthz` whether the server should be replaced. They need no key
//! and reveal nothing else.
//!
//! All servers share the store, so an outage of the store makes none of them unhealthy: replacing them would not help. A
//! server that never reached the store is unhealthy, so that a deployment of a wrong configuration is rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use engine::Engine;
use store::Store;
use tokio::time::timeout;
use views::hint::TENANT_DEFAULT;

/// A slower store is reported as unavailable.
const RESPONSE_MAX: Duration = Duration::from_secs(2);

struct ServerHealth<S> {
    engine: Arc<Engine<S>>,
    /// Whether the store has responded.
    has_responded: AtomicBool,
}

pub(crate) fn router<S: Store>(engine: Arc<Engine<S>>) -> Router {
    let health = Arc::new(ServerHealth { engine, has_responded: AtomicBool::new(false) });
    Router::new()
        .route("/healthz", get(is_healthy::<S>))
        .route("/readyz", get(is_ready::<S>))
        .with_state(health)
}

async fn is_healthy<S: Store>(State(health): State<Arc<ServerHealth<S>>>) -> (StatusCode, &'static str) {
    if health.has_responded.load(Ordering::Relaxed) {
        return (StatusCode::OK, "ok");
    }
    is_ready(State(health)).await
}

async fn is_ready<S: Store>(State(health): State<Arc<ServerHealth<S>>>) -> (StatusCode, &'static str) {
    if store_responds(&health.engine).await {
        health.has_responded.store(true, Ordering::Relaxed);
        return (StatusCode::OK, "ok");
    }
    (StatusCode::SERVICE_UNAVAILABLE, "the store does not respond")
}

/// Reads one record; it need not exist.
async fn store_responds<S: Store>(engine: &Engine<S>) -> bool {
    let Ok(tenant) = TENANT_DEFAULT.parse() else { return false };
    match timeout(RESPONSE_MAX, engine.store().tenant(&tenant)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            tracing::warn!(event = "health_check_failed", error = %engine::error_chain(&error), "store does not respond");
            false
        }
        Err(_) => {
            tracing::warn!(event = "health_check_timed_out", "store does not respond");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Intercepted, StoreError};
    use testkit::{Fault, Faults};

    #[tokio::test]
    async fn store_outage_makes_no_server_unhealthy() {
        let fails = Arc::new(AtomicBool::new(true));
        let failing = Arc::clone(&fails);
        let gone = || Fault::Fail(StoreError::broken("read the tenant", "gone"));
        let faults = Faults::new(move |_| if failing.load(Ordering::Relaxed) { gone() } else { Fault::None });
        let engine = Arc::new(testkit::engine().on(Intercepted::new(testkit::memory(), faults)));
        let health = Arc::new(ServerHealth { engine, has_responded: AtomicBool::new(false) });
        let status =
            async || (is_healthy(State(health.clone())).await.0, is_ready(State(health.clone())).await.0);
        let (up, down) = (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status().await, (down, down), "it never reached the store");
        fails.store(false, Ordering::Relaxed);
        assert_eq!(status().await, (up, up));
        fails.store(true, Ordering::Relaxed);
        assert_eq!(status().await, (up, down));
    }
}
