//! Sort keys in order of time, for lists.

use std::sync::atomic::{AtomicI64, Ordering};

use domain::Timestamp;

/// Issues sequences in order of time. The sequences of one process are unique and increase, even if its clock stops
/// or goes back. Sequences of different processes are ordered as well as their clocks are.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    last: AtomicI64,
}

/// A position in a list: microseconds since 1970, zero-padded, so that text order is time order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimeSortKey(String);

impl Sequences {
    pub(super) fn next(&self, now: Timestamp) -> TimeSortKey {
        let now = now.0.max(0).saturating_mul(1000);
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap_or(now);
        TimeSortKey(format!("{:020}", now.max(last.saturating_add(1))))
    }
}

impl TimeSortKey {
    /// The first sequence of a time.
    pub(super) fn first_at(at: Timestamp) -> Self {
        Self(format!("{:020}", at.0.max(0).saturating_mul(1000)))
    }

    /// The sort key of the item with this id. The id keeps sort keys of equal sequences distinct.
    pub(super) fn with_id(&self, id: &str) -> String {
        format!("{}.{id}", self.0)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_increase_when_the_clock_goes_back() {
        let sequences = Sequences::default();
        let issued: Vec<_> =
            [1000, 1000, 999, 1001].map(|now| sequences.next(Timestamp(now))).into_iter().collect();
        assert!(issued.is_sorted_by(|a, b| a < b), "{issued:?}");
    }
}
