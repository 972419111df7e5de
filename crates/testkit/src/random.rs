//! Random numbers by seed.

use std::time::Duration;

/// `SplitMix64`: the same seed gives the same numbers on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.number() % (limit as u64).max(1)).unwrap()
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Whether an event happens that has this probability.
    pub fn happens(&mut self, per_mille: usize) -> bool {
        self.below(1_000) < per_mille
    }

    /// A duration of at most `max`.
    pub fn up_to(&mut self, max: Duration) -> Duration {
        max * u32::try_from(self.below(1_001)).unwrap() / 1_000
    }
}
