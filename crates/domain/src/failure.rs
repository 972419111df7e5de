//! What went wrong with a step, in words that may be shown and stored.

use serde::{Deserialize, Serialize};

use crate::json;

/// Error texts come from the outside as often as not; this much is kept.
pub const MESSAGE_CHARS_MAX: usize = 512;

/// Why an attempt did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable code in capitals: `LEASE_EXPIRED`, `HTTP_STATUS`, `EXPRESSION`.
    pub code: String,
    /// One sentence for a person, at most [`MESSAGE_CHARS_MAX`] characters.
    pub message: String,
}

impl Failure {
    /// A failure with a bounded message in which control characters are made visible.
    pub fn new(code: &str, message: impl AsRef<str>) -> Self {
        Self { code: code.to_owned(), message: bounded(message.as_ref(), MESSAGE_CHARS_MAX) }
    }

    /// A failure that `last` has led to, and that tells of it.
    pub fn after(last: &Self, code: &str) -> Self {
        Self::new(code, format!("{}: {}", last.code, last.message))
    }
}

/// The first `chars_max` characters of `text`, with control characters made visible: what somebody wrote,
/// as it may stand in a record and on a screen.
pub fn bounded(text: &str, chars_max: usize) -> String {
    text.chars().map(visible).take(chars_max).collect()
}

fn visible(c: char) -> char {
    if c.is_control() || json::is_forbidden(c) { '\u{fffd}' } else { c }
}

/// The lease ran out before its holder was heard of again.
pub const LEASE_EXPIRED: &str = "LEASE_EXPIRED";
/// The effect may or may not have happened, and nothing tells which.
pub const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";
/// Every attempt that the step was allowed has failed.
pub const ATTEMPTS_EXHAUSTED: &str = "ATTEMPTS_EXHAUSTED";
/// No event came before the deadline.
pub const WAIT_TIMED_OUT: &str = "WAIT_TIMED_OUT";
/// Nobody decided before the deadline.
pub const APPROVAL_EXPIRED: &str = "APPROVAL_EXPIRED";
/// A person said no.
pub const APPROVAL_REJECTED: &str = "APPROVAL_REJECTED";
/// Another run is performing the same effect at this moment.
pub const KEY_IN_FLIGHT: &str = "KEY_IN_FLIGHT";
/// An expression of the step could not be evaluated.
pub const EXPRESSION: &str = "EXPRESSION";
/// What the step would be told with is not kept any more.
pub const PAYLOAD_GONE: &str = "PAYLOAD_GONE";
/// What the step produced breaks a rule of the ledger.
pub const OUTPUT_INVALID: &str = "OUTPUT_INVALID";
/// The plan names a tool this worker does not have.
pub const TOOL_UNKNOWN: &str = "TOOL_UNKNOWN";
/// Policy said no.
pub const POLICY_DENIED: &str = "POLICY_DENIED";
/// What the step would do cannot be judged.
pub const ACTION_INVALID: &str = "ACTION_INVALID";
