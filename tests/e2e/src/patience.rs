//! Waiting for what must come.

use std::time::{Duration, Instant};

/// Longer than anything takes here on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// Looks until there is something to be seen, for as long as `within`.
pub async fn until<T>(what: &str, within: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < within, "waited {within:?} for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
