//! What the tests of workers share.

use domain::Timestamp;
use store::Clock;
use tokio::time::Instant;

/// Time that passes as soon as everybody waits.
pub(crate) struct Virtual(Instant);

impl Virtual {
    /// It begins now.
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.0.elapsed().as_millis()).unwrap();
        Timestamp(1_750_000_000_000 + passed)
    }
}
