//! Jitter for delays, so that callers do not retry in lockstep.
//!
//! The jitter is derived from the caller's id and the attempt instead of a random number, so that a test is
//! repeatable.

use std::time::Duration;

use domain::Digest;

/// A delay between zero and `max`. It is always the same for one `caller` and `attempt`, and almost always
/// different for another caller.
pub fn up_to(max: Duration, caller: &str, attempt: u32) -> Duration {
    let parts = [caller.as_bytes(), &attempt.to_be_bytes()];
    let fraction = Digest::of_parts("countersign/spread/v1", &parts).as_bytes()[0];
    max * u32::from(fraction) / 255
}

/// A delay between 50 % and 150 % of `delay`.
pub fn around(delay: Duration, caller: &str, attempt: u32) -> Duration {
    delay / 2 + up_to(delay, caller, attempt)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const DELAY: Duration = Duration::from_millis(500);

    #[test]
    fn callers_get_different_delays() {
        let delays: BTreeSet<Duration> = (0..100).map(|n| around(DELAY, &format!("worker.{n}"), 1)).collect();
        assert!(delays.len() > 50, "{} different delays of 100", delays.len());
        assert!(delays.iter().all(|delay| (DELAY / 2..=DELAY * 3 / 2).contains(delay)), "{delays:?}");
    }

    #[test]
    fn delays_differ_per_attempt_and_repeat() {
        let delays = || (0..20).map(|attempt| up_to(DELAY, "worker.1", attempt)).collect::<Vec<_>>();
        assert_eq!(delays(), delays());
        assert!(delays().into_iter().collect::<BTreeSet<_>>().len() > 10);
    }
}
