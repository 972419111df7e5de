//! Virtual clocks: each node has its own, and it may be wrong.

use domain::Timestamp;
use store::Clock;
use tokio::time::Instant;

/// When every simulation begins: any moment will do, as long as it is always the same.
const EPOCH: i64 = 1_750_000_000_000;

/// A clock that runs with virtual time, off by a fixed amount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VirtualClock {
    begun: Instant,
    off_by_ms: i64,
}

impl VirtualClock {
    pub(crate) fn new(begun: Instant, off_by_ms: i64) -> Self {
        Self { begun, off_by_ms }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        Timestamp(EPOCH + passed + self.off_by_ms)
    }
}
