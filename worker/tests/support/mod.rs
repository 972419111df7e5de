//! Shared by the tests of workers.

use domain::Timestamp;
use store::Clock;
use tokio::time::Instant;

/// A clock in virtual time.
pub(crate) struct Virtual(Instant);

impl Virtual {
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
