//! Retry delays.
//!
//! The jitter is derived from a seed. The same failed attempt of the same step gets the same delay on every worker, so
//! a repeated decision is the same decision.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::time::Millis;

/// The default delays: short for a glitch, long enough for an incident.
pub const TABLE: [Millis; 4] = [Millis::secs(5), Millis::secs(30), Millis::mins(2), Millis::mins(10)];

/// The first attempt, and one for each delay in [`TABLE`].
pub const ATTEMPTS_DEFAULT: u32 = 5;

/// After twenty attempts an operator should investigate.
pub const ATTEMPTS_MAX: u32 = 20;

/// The maximum of all delays of a step together. After a day an operator should investigate. External systems can add at
/// most [`RETRY_AFTER_MAX`] for each attempt.
pub const TOTAL_MAX: Millis = Millis::hours(24);

/// The maximum delay that an external system can ask for.
pub const RETRY_AFTER_MAX: Millis = Millis::hours(1);

/// The number of attempts and the delays between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// The number of attempts in all; 1 means no retries.
    pub attempts: u32,
    /// Whether an opaque or destructive action is attempted once. Set if the workflow states no number of attempts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub once_if_risky: bool,
    /// How the delays grow.
    pub backoff: Backoff,
    /// The maximum delay.
    pub cap: Millis,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: ATTEMPTS_DEFAULT, once_if_risky: true, backoff: Backoff::Table, cap: TABLE[3] }
    }
}

/// How delays grow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// 5 s, 30 s, 2 min, then 10 min.
    Table,
    /// `2^attempt × base`.
    Exponential {
        /// The delay after the first attempt.
        base: Millis,
    },
}

impl RetryPolicy {
    /// Whether `attempt` (from 0) was the last one.
    pub fn is_exhausted_by(&self, attempt: u32) -> bool {
        attempt.saturating_add(1) >= self.attempts
    }

    /// Whether a failed `attempt` (from 0) at an effect was the last one.
    pub fn is_exhausted_by_effect(&self, attempt: u32, is_risky: bool) -> bool {
        self.is_exhausted_by(attempt) || (is_risky && self.once_if_risky)
    }

    /// The delay after `attempt` (from 0) failed. At least `retry_after`, which the external system asked for, up to
    /// [`RETRY_AFTER_MAX`].
    pub fn delay(&self, attempt: u32, seed: &Digest, retry_after: Option<Millis>) -> Millis {
        let planned = jittered(self.planned_delay(attempt).min(self.cap), attempt, seed);
        let requested = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        planned.max(requested)
    }

    /// The longest time that the delays of a step take together, without those that an external system asks for.
    pub fn total(&self) -> Millis {
        let delays = (1..self.attempts).map(|attempt| self.planned_delay(attempt - 1).min(self.cap).0);
        Millis(delays.fold(0, u64::saturating_add))
    }

    fn planned_delay(&self, attempt: u32) -> Millis {
        match self.backoff {
            Backoff::Table => TABLE[usize::try_from(attempt).unwrap_or(usize::MAX).min(TABLE.len() - 1)],
            Backoff::Exponential { base } => {
                Millis(base.0.saturating_mul(1_u64.checked_shl(attempt).unwrap_or(u64::MAX)))
            }
        }
    }
}

/// 80 % to 100 % of `delay`: spreads retries without exceeding the cap.
fn jittered(delay: Millis, attempt: u32, seed: &Digest) -> Millis {
    let digest =
        Digest::of_parts("countersign/jitter/v1", &[seed.as_bytes().as_slice(), &attempt.to_be_bytes()]);
    let [a, b, ..] = digest.as_bytes();
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
    fn default_delays_grow_up_to_the_cap() {
        let seed = Digest::of_bytes(b"seed");
        for (attempt, row) in TABLE.iter().enumerate() {
            let delay = policy(Backoff::Table).delay(u32::try_from(attempt).unwrap(), &seed, None);
            assert!(delay <= *row && delay.0 >= row.0 * 8 / 10, "{attempt}: {delay:?}");
        }
        assert!(policy(Backoff::Table).delay(1_000, &seed, None) <= TABLE[3]);
    }

    #[test]
    fn exponential_backoff_does_not_overflow() {
        let seed = Digest::ZERO;
        let policy = policy(Backoff::Exponential { base: Millis::secs(1) });
        assert!(policy.delay(3, &seed, None).0 > policy.delay(2, &seed, None).0);
        assert!(policy.delay(200, &seed, None) <= policy.cap);
    }

    #[test]
    fn jitter_depends_only_on_the_seed() {
        let policy = RetryPolicy::default();
        let (a, b) = (Digest::of_bytes(b"a"), Digest::of_bytes(b"b"));
        assert_eq!(policy.delay(2, &a, None), policy.delay(2, &a, None));
        assert_ne!(policy.delay(2, &a, None), policy.delay(2, &b, None));
    }

    #[test]
    fn retry_after_is_honoured_up_to_the_maximum() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(0, &Digest::ZERO, Some(Millis::mins(7))), Millis::mins(7));
        assert_eq!(policy.delay(0, &Digest::ZERO, Some(Millis::hours(99))), RETRY_AFTER_MAX);
    }

    #[test]
    fn total_is_the_sum_of_the_delays() {
        let table = |attempts| RetryPolicy { attempts, ..RetryPolicy::default() };
        assert_eq!(table(1).total(), Millis(0));
        assert_eq!(table(5).total(), Millis(TABLE.iter().map(|delay| delay.0).sum()));
        let longest = policy(Backoff::Exponential { base: Millis(u64::MAX) });
        assert_eq!(longest.total(), Millis(4 * longest.cap.0));
    }

    #[test]
    fn last_attempt_exhausts_the_policy() {
        let once = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
        assert!(once.is_exhausted_by(0));
        assert!(!RetryPolicy::default().is_exhausted_by(3));
        assert!(RetryPolicy::default().is_exhausted_by(4));
        let explicit = RetryPolicy { once_if_risky: false, ..RetryPolicy::default() };
        assert!(RetryPolicy::default().is_exhausted_by_effect(0, true));
        assert!(!RetryPolicy::default().is_exhausted_by_effect(0, false));
        assert!(!explicit.is_exhausted_by_effect(0, true));
    }
}
