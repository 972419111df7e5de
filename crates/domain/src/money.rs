//! Amounts of money.

/// Formats millionths of a US dollar, with cents and as many more digits as needed: `$0.0123`.
pub fn money(microusd: u64) -> String {
    let digits = format!("{:06}", microusd % 1_000_000);
    let (cents, rest) = digits.split_at(2);
    format!("${}.{cents}{}", microusd / 1_000_000, rest.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_at_least_cents() {
        for (microusd, text) in [
            (0, "$0.00"),
            (1, "$0.000001"),
            (1_173, "$0.001173"),
            (12_300, "$0.0123"),
            (2_500_000, "$2.50"),
            (7_505_000, "$7.505"),
        ] {
            assert_eq!(money(microusd), text);
        }
    }
}
