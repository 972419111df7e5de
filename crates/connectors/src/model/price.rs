use std::collections::BTreeMap;

use domain::connection::ModelPrice;

/// Providers publish prices per million tokens.
const PRICED_TOKENS: u64 = 1_000_000;

/// A rough average, used for estimates only.
const CHARS_PER_TOKEN: usize = 4;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Tokens {
    /// An approximate upper bound: the prompt, and the longest allowed answer.
    pub(super) fn estimate(chars: usize, max_tokens: u64) -> Self {
        Self { input: u64::try_from(chars.div_ceil(CHARS_PER_TOKEN)).unwrap_or(u64::MAX), output: max_tokens }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }

    /// The cost, rounded up. `None` if the model has no price.
    pub(super) fn cost(self, prices: &BTreeMap<String, ModelPrice>, model: &str) -> Option<u64> {
        let price = prices.get(model)?;
        let input = self.input.saturating_mul(price.input);
        let output = self.output.saturating_mul(price.output);
        Some(input.saturating_add(output).div_ceil(PRICED_TOKENS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_rounded_up_and_unknown_without_price() {
        let price = ModelPrice { input: 3_000_000, output: 15_000_000 };
        let prices = BTreeMap::from([("m".to_owned(), price)]);
        assert_eq!(Tokens { input: 120, output: 30 }.cost(&prices, "m"), Some(810));
        let cheap = ModelPrice { input: 1, output: 0 };
        assert_eq!(Tokens { input: 1, output: 1 }.cost(&[("m".to_owned(), cheap)].into(), "m"), Some(1));
        assert_eq!(Tokens { input: 1, output: 1 }.cost(&prices, "other"), None);
    }
}
