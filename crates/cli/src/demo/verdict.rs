//! What the demo claims, and whether it really was so.

use serde_json::{Value, json};

/// A claim that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    claim: &'static str,
    holds: bool,
    /// What was found, for whoever doubts it.
    found: String,
}

/// Checks that `found` is `expected`.
pub(super) fn check<T: PartialEq + std::fmt::Debug>(claim: &'static str, found: &T, expected: &T) -> Check {
    let holds = found == expected;
    let told =
        if holds { format!("{found:?}") } else { format!("{found:?}, where {expected:?} was expected") };
    Check { claim, holds, found: told }
}

/// Whether all of them hold.
pub(super) fn all_hold(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.holds)
}

/// One line for each claim.
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
    fn a_claim_that_does_not_hold_says_what_was_found() {
        let checks = [check("once", &1, &1), check("verified", &false, &true)];
        assert!(!all_hold(&checks));
        assert_eq!(text(&checks), "[ok]     once\n[FAILED] verified: false, where true was expected\n");
    }
}
