//! Waits for other tasks and processes.

use std::time::Duration;

/// A test that waits longer has failed.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Waits until the condition holds.
pub async fn eventually(is_so: impl AsyncFn() -> bool) {
    eventually_some(async || is_so().await.then_some(())).await;
}

/// Waits until there is a value.
pub async fn eventually_some<T>(found: impl AsyncFn() -> Option<T>) -> T {
    let waits = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, waits).await.unwrap()
}
