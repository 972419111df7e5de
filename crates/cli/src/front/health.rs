//! Whether a server is of any use: it answers, and so does its store. For load balancers, which bring no key; nothing
//! more is said.

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

/// Where it is asked.
const PATH: &str = "/healthz";

/// A store that takes longer is of no use to whoever waits for a page.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The route.
pub(crate) fn router<S: Store>(engine: Arc<Engine<S>>) -> Router {
    Router::new().route(PATH, get(told::<S>)).with_state(engine)
}

async fn told<S: Store>(State(engine): State<Arc<Engine<S>>>) -> (StatusCode, &'static str) {
    if answers(&engine).await {
        return (StatusCode::OK, "ok");
    }
    (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer")
}

/// One record is looked up, whether or not it is there.
async fn answers<S: Store>(engine: &Engine<S>) -> bool {
    let Ok(tenant) = TENANT_DEFAULT.parse() else { return false };
    match timeout(ANSWER_MAX, engine.store().tenant(&tenant)).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            tracing::warn!(error = %engine::told(&error), "the store does not answer");
            false
        }
        Err(_) => {
            tracing::warn!("the store takes too long to answer");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::Toolbox;
    use engine::{Parts, Timing};
    use store::{Intercept, Intercepted, Site, SqliteOptions, SqliteStore, StoreError, SystemClock};

    /// Lets calls through, or fails them.
    struct Fails(bool);

    impl Intercept for Fails {
        type Pass = ();

        async fn before(&self, _: &Site) -> Result<(), StoreError> {
            if self.0 { Err(StoreError::broken("look", "it is gone")) } else { Ok(()) }
        }

        async fn after(&self, (): ()) -> Result<(), StoreError> {
            Ok(())
        }
    }

    async fn asked(fails: bool) -> StatusCode {
        let store = SqliteStore::memory(SqliteOptions::default()).unwrap();
        let engine = Engine::new(Parts {
            store: Arc::new(Intercepted::new(store, Fails(fails))),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "server".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        });
        told(State(Arc::new(engine))).await.0
    }

    #[tokio::test]
    async fn a_server_is_of_use_as_long_as_its_store_answers() {
        assert_eq!(asked(false).await, StatusCode::OK);
        assert_eq!(asked(true).await, StatusCode::SERVICE_UNAVAILABLE);
    }
}
