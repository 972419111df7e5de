//! Names for writes.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::{OpId, WorkerId};

/// A source of op ids that are unique as long as its owner's id is.
#[derive(Debug)]
pub struct Ops {
    owner: String,
    count: AtomicU64,
}

/// The owner's part of an op id; the rest is for the count.
const OWNER_CHARS_MAX: usize = 96;

impl Ops {
    /// A source for `owner`.
    pub fn new(owner: &WorkerId) -> Self {
        Self { owner: owner.as_str().chars().take(OWNER_CHARS_MAX).collect(), count: AtomicU64::new(0) }
    }

    /// An op id that has not been given out before.
    #[expect(clippy::expect_used, reason = "an id's prefix with a number behind it is an id")]
    pub fn next(&self) -> OpId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        OpId::new(&format!("{}.{count}", self.owner)).expect("a bounded id")
    }
}
