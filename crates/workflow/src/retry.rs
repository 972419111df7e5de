//! `retry`: the number of attempts and the delays between them.

use domain::Millis;
use domain::retry_policy::{ATTEMPTS_MAX, Backoff, RetryPolicy, TABLE, TOTAL_MAX};
use strum::{EnumString, VariantNames};

use crate::error::{ParseErrorKind, WorkflowError};
use crate::fields::{Fields, choice, duration, integer};
use crate::yaml::Node;

const FIELDS: [&str; 4] = ["attempts", "backoff", "base", "cap"];

/// A shorter delay has no effect on an overloaded system.
pub(crate) const DELAY_MIN: Millis = Millis(100);

/// After a longer delay, an operator should investigate instead.
pub(crate) const DELAY_MAX: Millis = Millis::hours(24);

/// The values of `backoff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum BackoffName {
    Table,
    Exponential,
}

/// Parses `retry`. Missing fields have their defaults.
pub(crate) fn retry(node: &Node) -> Result<RetryPolicy, WorkflowError> {
    let fields = Fields::of(node, "`retry`", &FIELDS)?;
    let default = RetryPolicy::default();
    let attempts = fields.get("attempts").map(|node| integer(node, "`attempts`", 1..=ATTEMPTS_MAX));
    let cap = fields.get("cap").map(|node| duration(node, "`cap`", DELAY_MIN..=DELAY_MAX));
    let policy = RetryPolicy {
        once_if_risky: attempts.is_none(),
        attempts: attempts.transpose()?.unwrap_or(default.attempts),
        backoff: backoff(&fields)?,
        cap: cap.transpose()?.unwrap_or(default.cap),
    };
    match policy.total() {
        total if total > TOTAL_MAX => Err(WorkflowError::of(node, ParseErrorKind::DelaysTooLong { total })),
        _ => Ok(policy),
    }
}

fn backoff(fields: &Fields<'_>) -> Result<Backoff, WorkflowError> {
    let chosen = fields.get("backoff").map(|node| choice(node, "`backoff`")).transpose()?;
    let base = fields.get("base").map(|node| duration(node, "`base`", DELAY_MIN..=DELAY_MAX)).transpose()?;
    match (chosen, fields.key("base")) {
        (Some(BackoffName::Exponential), _) => Ok(Backoff::Exponential { base: base.unwrap_or(TABLE[0]) }),
        (_, Some(key)) => Err(WorkflowError::of(key, ParseErrorKind::BaseUnused)),
        (_, None) => Ok(Backoff::Table),
    }
}
