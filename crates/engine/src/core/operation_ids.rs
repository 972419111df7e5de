//! Operation ids.

use std::sync::atomic::{AtomicU64, Ordering};

use domain::{Digest, OpId, WorkerId};

/// Generates operation ids that are unique as long as the owner's id is.
#[derive(Debug)]
pub struct OperationIds {
    owner: String,
    count: AtomicU64,
}

/// The maximum length of the owner's part; the rest of an operation id is for the counter.
const OWNER_CHARS_MAX: usize = 96;

/// How much of a longer id is used in front of its digest.
const PREFIX_CHARS: usize = 63;

impl OperationIds {
    pub fn new(owner: &WorkerId) -> Self {
        Self { owner: owner_part(owner.as_str()), count: AtomicU64::new(0) }
    }

    #[expect(clippy::expect_used, reason = "an id's prefix with a number behind it is an id")]
    pub fn next(&self) -> OpId {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        OpId::new(&format!("{}.{count}", self.owner)).expect("a bounded id")
    }
}

/// The owner's id, or a prefix and the digest of a long one. The end of an id distinguishes processes on one host.
fn owner_part(owner: &str) -> String {
    if owner.len() <= OWNER_CHARS_MAX {
        return owner.to_owned();
    }
    let prefix: String = owner.chars().take(PREFIX_CHARS).collect();
    format!("{prefix}-{}", &Digest::of_bytes(owner.as_bytes()).to_string()[..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_owners_with_a_common_prefix_have_distinct_ids() {
        let owner = |end: &str| WorkerId::new(&format!("{}{end}", "h".repeat(120))).unwrap();
        let [first, second] = ["-1a2b", "-3c4d"].map(|end| OperationIds::new(&owner(end)).next());
        assert_ne!(first, second);
        assert!(first.as_str().len() <= OWNER_CHARS_MAX + ".0".len());
    }
}
