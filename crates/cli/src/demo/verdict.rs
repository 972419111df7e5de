//! The checks of the demo and their results.

use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    claim: &'static str,
    holds: bool,
    found: String,
}

/// Checks that `found` is `expected`.
pub(super) fn check<T: PartialEq + std::fmt::Debug>(claim: &'static str, found: &T, expected: &T) -> Check {
    let holds = found == expected;
    let found = if holds { format!("{found:?}") } else { format!("found {found:?}, expected {expected:?}") };
    Check { claim, holds, found }
}

pub(super) fn all_hold(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.holds)
}

/// One line for each check.
pub(super) fn text(checks: &[Check]) -> String {
    let line = |Check { claim, holds, found }: &Check| {
        if *holds { format!("[ok]     {claim}\n") } else { format!("[FAILED] {claim}: {found}\n") }
    };
    checks.iter().map(line).collect()
}

pub(super) fn to_json(checks: &[Check]) -> Value {
    checks
        .iter()
        .map(|check| json!({ "claim": check.claim, "holds": check.holds, "found": check.found }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_check_shows_found_and_expected() {
        let checks = [check("once", &1, &1), check("verified", &false, &true)];
        assert!(!all_hold(&checks));
        assert_eq!(text(&checks), "[ok]     once\n[FAILED] verified: found false, expected true\n");
    }
}
