//! Seeded random numbers, so that the same seed gives the same workflows, inputs and faults.

use domain::Digest;
use testkit::Random;

#[derive(Debug, Clone)]
pub(crate) struct Rng(Random);

impl Rng {
    /// A generator for one part of the soak, so that the parts do not share a sequence.
    pub(crate) fn new(seed: u64, part: &str) -> Self {
        Self(Random::new(seed ^ stable_hash(part)))
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0.number() % limit.max(1)
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        self.0.pick(of)
    }
}

/// A number that depends only on `text`.
pub(crate) fn stable_hash(text: &str) -> u64 {
    let digest = Digest::of_parts("countersign/soak/v1", &[text]);
    digest.as_bytes()[..8].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}
