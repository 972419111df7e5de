//! When a failed attempt is tried again.
//!
//! The jitter comes from a seed, not from chance: the same failed attempt of the same step gets the same
//! delay on every worker, so a decision made twice is the same decision.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::time::Millis;

/// The default table: quick enough for a blip, patient enough for an incident.
pub const TABLE: [Millis; 4] = [Millis::secs(5), Millis::secs(30), Millis::mins(2), Millis::mins(10)];

/// One first attempt and one for each row of [`TABLE`].
pub const ATTEMPTS_DEFAULT: u32 = 5;

/// Past twenty attempts a person should look.
pub const ATTEMPTS_MAX: u32 = 20;

/// An outside system may ask us to stay away, but not for longer than this.
pub const RETRY_AFTER_MAX: Millis = Millis::hours(1);

/// How often a step is tried, and how far apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// How many attempts there are in all; 1 means none is repeated.
    pub attempts: u32,
    /// How far apart they are.
    pub backoff: Backoff,
    /// No delay is longer than this, whatever the backoff says.
    pub cap: Millis,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: ATTEMPTS_DEFAULT, backoff: Backoff::Table, cap: TABLE[3] }
    }
}

/// How delays grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// 5 s, 30 s, 2 m, then 10 m.
    Table,
    /// `2^attempt × base`.
    Exponential {
        /// The delay after the first attempt.
        base: Millis,
    },
}

impl RetryPolicy {
    /// Whether the attempt numbered `attempt` (from 0) was the last one allowed.
    pub fn is_exhausted_by(&self, attempt: u32) -> bool {
        attempt.saturating_add(1) >= self.attempts
    }

    /// How long to wait after the attempt numbered `attempt` (from 0) failed. What the other side asked
    /// for is honoured, within [`RETRY_AFTER_MAX`].
    pub fn delay(&self, attempt: u32, seed: &Digest, retry_after: Option<Millis>) -> Millis {
        let planned = jittered(self.planned(attempt).min(self.cap), attempt, seed);
        let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        planned.max(asked)
    }

    fn planned(&self, attempt: u32) -> Millis {
        match self.backoff {
            Backoff::Table => TABLE[usize::try_from(attempt).unwrap_or(usize::MAX).min(TABLE.len() - 1)],
            Backoff::Exponential { base } => {
                Millis(base.0.saturating_mul(1_u64.checked_shl(attempt).unwrap_or(u64::MAX)))
            }
        }
    }
}

/// Between 80 % and 100 % of `delay`: spreads a crowd without ever passing the cap.
fn jittered(delay: Millis, attempt: u32, seed: &Digest) -> Millis {
    let roll =
        Digest::of_parts("countersign/jitter/v1", &[seed.as_bytes().as_slice(), &attempt.to_be_bytes()]);
    let [a, b, ..] = roll.as_bytes();
    let thousandths = 800 + u64::from(u16::from_be_bytes([*a, *b])) * 200 / u64::from(u16::MAX);
    Millis(delay.0 / 1_000 * thousandths + delay.0 % 1_000 * thousandths / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(backoff: Backoff) -> RetryPolicy {
        RetryPolicy { backoff, ..RetryPolicy::default() }
    }

    #[test]
    fn the_default_waits_longer_each_time_and_then_no_longer() {
        let seed = Digest::of_bytes(b"seed");
        for (attempt, row) in TABLE.iter().enumerate() {
            let delay = policy(Backoff::Table).delay(u32::try_from(attempt).unwrap(), &seed, None);
            assert!(delay <= *row && delay.0 >= row.0 * 8 / 10, "{attempt}: {delay:?}");
        }
        assert!(policy(Backoff::Table).delay(1_000, &seed, None) <= TABLE[3]);
    }

    #[test]
    fn exponential_doubles_and_does_not_overflow() {
        let seed = Digest::ZERO;
        let policy = policy(Backoff::Exponential { base: Millis::secs(1) });
        assert!(policy.delay(3, &seed, None).0 > policy.delay(2, &seed, None).0);
        assert!(policy.delay(200, &seed, None) <= policy.cap);
    }

    #[test]
    fn the_same_attempt_gets_the_same_delay_and_another_run_a_different_one() {
        let policy = RetryPolicy::default();
        let (a, b) = (Digest::of_bytes(b"a"), Digest::of_bytes(b"b"));
        assert_eq!(policy.delay(2, &a, None), policy.delay(2, &a, None));
        assert_ne!(policy.delay(2, &a, None), policy.delay(2, &b, None));
    }

    #[test]
    fn retry_after_is_honoured_within_reason() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(0, &Digest::ZERO, Some(Millis::mins(7))), Millis::mins(7));
        assert_eq!(policy.delay(0, &Digest::ZERO, Some(Millis::hours(99))), RETRY_AFTER_MAX);
    }

    #[test]
    fn attempt_plus_one_at_the_limit_is_exhausted() {
        let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        assert!(once.is_exhausted_by(0));
        assert!(!RetryPolicy::default().is_exhausted_by(3));
        assert!(RetryPolicy::default().is_exhausted_by(4));
    }
}
