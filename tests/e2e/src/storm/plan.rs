//! The parameters of a storm, and the order of its deliveries.

use std::time::Duration;

use serde::Serialize;

use super::rng::Rng;

#[derive(Debug, Clone, Serialize)]
pub struct Storm {
    /// The number of deliveries, including duplicates.
    pub deliveries: u32,
    /// The percentage of deliveries that are duplicates.
    pub duplicates_percent: u32,
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of concurrent deliveries.
    pub in_flight: usize,
    pub workers: usize,
    /// The average time between two kills.
    #[serde(skip)]
    pub kill_every: Duration,
    #[serde(skip)]
    pub sweep_every: Duration,
    /// The storm is aborted after this long without progress.
    #[serde(skip)]
    pub stalled_after: Duration,
}

impl Default for Storm {
    fn default() -> Self {
        Self {
            deliveries: 10_000,
            duplicates_percent: 10,
            seed: 1,
            in_flight: 16,
            workers: 3,
            kill_every: Duration::from_secs(4),
            // As the schedule in `infra/`.
            sweep_every: Duration::from_mins(1),
            // The sweep finds an orphaned run after five minutes.
            stalled_after: Duration::from_mins(8),
        }
    }
}

impl Storm {
    /// The number of deliveries that are not duplicates.
    pub fn distinct(&self) -> u32 {
        self.deliveries - self.deliveries * self.duplicates_percent / 100
    }

    /// The record numbers in the order of their deliveries. Half of the duplicates follow the first delivery immediately, so
    /// that both are in flight at once; the others come at any later time.
    pub fn order(&self) -> Vec<u32> {
        let distinct = self.distinct();
        let mut rng = Rng::new(self.seed);
        let first = (0..distinct).map(|record| (record, 0, record));
        let again = (distinct..self.deliveries).map(|number| {
            let record = rng.below(distinct);
            let after = if number % 2 == 0 { 0 } else { rng.below(distinct - record) + 1 };
            (record + after, 1, record)
        });
        let mut order: Vec<(u32, u32, u32)> = first.chain(again).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, record)| record).collect()
    }
}

/// The `sys_id` of a record.
pub(super) fn sys_id(record: u32) -> String {
    format!("{record:032x}")
}
