//! The clock of the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use domain::{Millis, Timestamp};
use store::{Clock, SystemClock};
use tokio::time::Instant;

/// A clock that a test sets and advances. Clones show the same time.
#[derive(Debug, Clone)]
pub struct TestClock {
    base: Base,
    offset: Arc<AtomicI64>,
}

#[derive(Debug, Clone, Copy)]
enum Base {
    /// Stands still.
    Zero,
    System,
    /// The virtual time of the runtime, since this instant.
    Runtime(Instant),
}

impl TestClock {
    /// A clock that stands still at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self::new(Base::Zero, now.0)
    }

    /// The clock of this machine, plus what the test advances it by.
    pub fn system() -> Self {
        Self::new(Base::System, 0)
    }

    /// A clock that follows `tokio::time`, so that paused time passes.
    pub fn runtime() -> Self {
        Self::new(Base::Runtime(Instant::now()), 1_750_000_000_000)
    }

    fn new(base: Base, offset: i64) -> Self {
        Self { base, offset: Arc::new(AtomicI64::new(offset)) }
    }

    /// Sets the time of a clock that stands still.
    pub fn set(&self, now: Timestamp) {
        self.offset.store(now.0, Ordering::SeqCst);
    }

    pub fn advance(&self, by: Millis) {
        self.offset.fetch_add(i64::try_from(by.0).unwrap(), Ordering::SeqCst);
    }

    pub fn rewind(&self, by: Millis) {
        self.offset.fetch_sub(i64::try_from(by.0).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let base = match self.base {
            Base::Zero => 0,
            Base::System => SystemClock.now().0,
            Base::Runtime(since) => i64::try_from(since.elapsed().as_millis()).unwrap(),
        };
        Timestamp(base + self.offset.load(Ordering::SeqCst))
    }
}
