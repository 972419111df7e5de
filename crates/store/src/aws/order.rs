//! The order in which things came, for lists.

use std::sync::atomic::{AtomicI64, Ordering};

use domain::Timestamp;

/// Gives out places in the order of time. Places of one process are never equal, even where its clock stands
/// still or goes back; those of several are as good as their clocks, which is good enough for a list.
#[derive(Debug, Default)]
pub(super) struct Orders {
    last: AtomicI64,
}

/// A place in a list: microseconds since 1970, written so that text order is time order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order(String);

impl Orders {
    pub(super) fn next(&self, now: Timestamp) -> Order {
        let now = now.0.max(0).saturating_mul(1000);
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).unwrap_or(now);
        Order(format!("{:020}", now.max(last.saturating_add(1))))
    }
}

impl Order {
    /// The first place of a time.
    pub(super) fn first_at(at: Timestamp) -> Self {
        Self(format!("{:020}", at.0.max(0).saturating_mul(1000)))
    }

    /// The place of what is called `name`; two of one place are told apart by it.
    pub(super) fn of(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stands_still_or_goes_back_puts_nothing_before_what_came() {
        let orders = Orders::default();
        let places: Vec<_> =
            [1000, 1000, 999, 1001].map(|now| orders.next(Timestamp(now))).into_iter().collect();
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
    }
}
