//! Operation ids.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::{OpId, WorkerId};

/// Generates operation ids that are unique as long as the owner's id is.
#[derive(Debug)]
pub struct Ops {
    owner: String,
    count: AtomicU64,
}

/// How much of the owner's id is used; the rest of an operation id is for the counter.
const OWNER_CHARS_MAX: usize = 96;

impl Ops {
    pub fn new(owner: &WorkerId) -> Self {
        Self { owner: owner.as_str().chars().take(OWNER_CHARS_MAX).collect(), count: AtomicU64::new(0) }
    }

    #[expect(clippy::expect_used, reason = "an id's prefix with a number behind it is an id")]
    pub fn next(&self) -> OpId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        OpId::new(&format!("{}.{count}", self.owner)).expect("a bounded id")
    }
}
