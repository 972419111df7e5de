//! What tokens cost.

use std::collections::BTreeMap;

/// A price per million tokens is how providers tell it.
const PER: u64 = 1_000_000;

/// What a token is worth in characters, about; only estimates use it.
const CHARS_PER_TOKEN: usize = 4;

/// What a model costs, in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// For a million tokens that are read.
    pub input_microusd: u64,
    /// For a million tokens that are written.
    pub output_microusd: u64,
}

/// How many tokens were, or would be, read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Tokens {
    /// At most, about: a prompt of so many characters, and the longest answer that is allowed.
    pub(super) fn estimate(chars: usize, max_tokens: u64) -> Self {
        Self { input: u64::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u64::MAX), output: max_tokens }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }

    /// What they cost, rounded up; none if nobody has said what the model costs.
    pub(super) fn cost(self, prices: &BTreeMap<String, Price>, model: &str) -> Option<u64> {
        let price = prices.get(model)?;
        let input = self.input.saturating_mul(price.input_microusd);
        let output = self.output.saturating_mul(price.output_microusd);
        Some(input.saturating_add(output).div_ceil(PER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_rounded_up_and_never_made_up() {
        let price = Price { input_microusd: 3_000_000, output_microusd: 15_000_000 };
        let prices = BTreeMap::from([("m".to_owned(), price)]);
        assert_eq!(Tokens { input: 120, output: 30 }.cost(&prices, "m"), Some(810));
        let cheap = Price { input_microusd: 1, output_microusd: 0 };
        assert_eq!(Tokens { input: 1, output: 1 }.cost(&[("m".to_owned(), cheap)].into(), "m"), Some(1));
        assert_eq!(Tokens { input: 1, output: 1 }.cost(&prices, "other"), None);
    }
}
