//! What a storm is made of, and in which order its deliveries are sent.

use std::time::Duration;

use serde::Serialize;

use super::chance::Chance;

/// A storm.
#[derive(Debug, Clone, Serialize)]
pub struct Storm {
    /// How many deliveries there are, those that come again included.
    pub deliveries: u32,
    /// How many of a hundred deliveries have been sent before.
    pub duplicates_percent: u32,
    /// What is left to chance comes from this number.
    pub seed: u64,
    /// How many deliveries are under way at once.
    pub in_flight: usize,
    /// How many workers there are.
    pub workers: usize,
    /// How long one of them lives until the next is killed; about.
    #[serde(skip)]
    pub kill_every: Duration,
    /// How often the sweep is called.
    #[serde(skip)]
    pub sweep_every: Duration,
    /// After how long without any progress it is given up.
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
            // As the schedule in `infra/` does.
            sweep_every: Duration::from_mins(1),
            // A run that nobody gave a sign of for five minutes is found by the sweep after that.
            stalled_after: Duration::from_mins(8),
        }
    }
}

impl Storm {
    /// How many of the deliveries are new.
    pub fn distinct(&self) -> u32 {
        self.deliveries - self.deliveries * self.duplicates_percent / 100
    }

    /// The numbers of the records that are told of, in the order they are sent. Half of those that come again
    /// follow the first at its heels, so that both are under way at once; the others come any time later.
    pub fn order(&self) -> Vec<u32> {
        let distinct = self.distinct();
        let mut chance = Chance::new(self.seed);
        let first = (0..distinct).map(|record| (record, 0, record));
        let again = (distinct..self.deliveries).map(|number| {
            let record = chance.below(distinct);
            let after = if number % 2 == 0 { 0 } else { chance.below(distinct - record) + 1 };
            (record + after, 1, record)
        });
        let mut order: Vec<(u32, u32, u32)> = first.chain(again).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, _, record)| record).collect()
    }
}

/// What the record of this number is called.
pub(super) fn sys_id(record: u32) -> String {
    format!("{record:032x}")
}
