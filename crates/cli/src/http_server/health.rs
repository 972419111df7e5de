//! `/healthz` for load balancers: whether the store responds. It needs no key and reveals nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use engine::Engine;
use store::Store;
use tokio::time::timeout;
use views::hint::TENANT_DEFAULT;

const PATH: &str = "/healthz";

/// A slower store is reported as unavailable.
const RESPONSE_MAX: Duration = Duration::from_secs(2);

pub(crate) fn router<S: Store>(engine: Arc<Engine<S>>) -> Router {
    Router::new().route(PATH, get(health::<S>)).with_state(engine)
}

async fn health<S: Store>(State(engine): State<Arc<Engine<S>>>) -> (StatusCode, &'static str) {
    if store_responds(&engine).await {
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

    async fn status(fails: bool) -> StatusCode {
        let gone = || Fault::Fail(StoreError::broken("read the tenant", "gone"));
        let faults = Faults::new(move |_| if fails { gone() } else { Fault::None });
        let engine = testkit::engine().on(Intercepted::new(testkit::memory(), faults));
        health(State(Arc::new(engine))).await.0
    }

    #[tokio::test]
    async fn health_follows_the_store() {
        assert_eq!(status(false).await, StatusCode::OK);
        assert_eq!(status(true).await, StatusCode::SERVICE_UNAVAILABLE);
    }
}
