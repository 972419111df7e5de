//! `retry`: the number of attempts and the delays between them.

use domain::Millis;
use domain::schedule::{ATTEMPTS_MAX, Backoff, RetryPolicy, TABLE};

use crate::error::{ParseErrorKind, WorkflowError};
use crate::fields::{Fields, choice, duration, integer};
use crate::yaml::Node;

const FIELDS: [&str; 4] = ["attempts", "backoff", "base", "cap"];
pub(crate) const BACKOFFS: [&str; 2] = ["table", "exponential"];

/// A shorter delay has no effect on an overloaded system.
pub(crate) const DELAY_MIN: Millis = Millis(100);

/// After a longer delay, an operator should investigate instead.
pub(crate) const DELAY_MAX: Millis = Millis::hours(24);

/// Parses `retry`. Missing fields have their defaults.
pub(crate) fn retry(node: &Node) -> Result<RetryPolicy, WorkflowError> {
    let fields = Fields::of(node, "`retry`", &FIELDS)?;
    let default = RetryPolicy::default();
    let attempts = fields.get("attempts").map(|node| integer(node, "`attempts`", 1..=ATTEMPTS_MAX));
    let cap = fields.get("cap").map(|node| duration(node, "`cap`", DELAY_MIN..=DELAY_MAX));
    Ok(RetryPolicy {
        attempts: attempts.transpose()?.unwrap_or(default.attempts),
        backoff: backoff(&fields)?,
        cap: cap.transpose()?.unwrap_or(default.cap),
    })
}

fn backoff(fields: &Fields<'_>) -> Result<Backoff, WorkflowError> {
    let chosen = fields.get("backoff").map(|node| choice(node, "`backoff`", &BACKOFFS)).transpose()?;
    let base = fields.get("base").map(|node| duration(node, "`base`", DELAY_MIN..=DELAY_MAX)).transpose()?;
    match (chosen.map(|chosen| BACKOFFS[chosen]), fields.key("base")) {
        (Some("exponential"), _) => Ok(Backoff::Exponential { base: base.unwrap_or(TABLE[0]) }),
        (_, Some(key)) => Err(WorkflowError::of(key, ParseErrorKind::BaseUnused)),
        (_, None) => Ok(Backoff::Table),
    }
}
