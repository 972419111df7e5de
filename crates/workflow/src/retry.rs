//! `retry`: how often a step is tried, and how far apart.

use domain::Millis;
use domain::schedule::{ATTEMPTS_MAX, Backoff, RetryPolicy, TABLE};

use crate::error::{Fault, WorkflowError};
use crate::fields::{Fields, choice, duration, integer};
use crate::yaml::Node;

const FIELDS: [&str; 4] = ["attempts", "backoff", "base", "cap"];
pub(crate) const BACKOFFS: [&str; 2] = ["table", "exponential"];

/// Shorter than this is not waiting.
pub(crate) const DELAY_MIN: Millis = Millis(100);

/// Whoever would wait longer wants a person to look.
pub(crate) const DELAY_MAX: Millis = Millis::hours(24);

/// The policy that `node` describes; what it leaves out is as in the default.
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
        (_, Some(key)) => Err(WorkflowError::of(key, Fault::BaseUnused)),
        (_, None) => Ok(Backoff::Table),
    }
}
