//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Longer than any condition here takes on a busy machine.
pub const TIMEOUT: Duration = Duration::from_mins(3);

/// Each check sends requests to the local AWS, which the programs under test need as well.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// Repeats `check` until it returns a value. Panics after `within`.
pub async fn wait_until<T>(what: &str, within: Duration, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(started.elapsed() < within, "timed out after {within:?} waiting for {what}");
        tokio::time::sleep(POLL_EVERY).await;
    }
}
