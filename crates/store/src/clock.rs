//! The one type that reads the time.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// Somebody's clock. Nothing safe depends on it being right.
pub trait Clock: Send + Sync {
    /// What it shows.
    fn now(&self) -> Timestamp;
}

/// This machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
