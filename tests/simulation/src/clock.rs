//! Virtual clocks. Each node has its own, with its own skew.

use domain::Timestamp;
use store::Clock;
use tokio::time::Instant;

/// Start time of every simulation. The value is arbitrary but fixed.
const EPOCH: i64 = 1_750_000_000_000;

/// A clock on virtual time with a fixed skew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtualClock {
    started: Instant,
    skew_ms: i64,
}

impl VirtualClock {
    pub(crate) fn new(started: Instant, skew_ms: i64) -> Self {
        Self { started, skew_ms }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(EPOCH + passed + self.skew_ms)
    }
}
