//! Chance from a number, so that a storm can be repeated as far as a storm can.

/// `SplitMix64`.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, or 0.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let high = (mixed ^ (mixed >> 31)) >> 32;
        u32::try_from((high * u64::from(limit)) >> 32).unwrap_or_default()
    }
}
