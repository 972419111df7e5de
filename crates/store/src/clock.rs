//! The clock. [`SystemClock`] is the only type of the product that reads the system time.

use std::time::{SystemTime, UNIX_EPOCH};

use domain::Timestamp;

/// A source of the current time. No guarantee of the product depends on its accuracy.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}
