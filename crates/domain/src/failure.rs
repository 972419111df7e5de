//! Failures of steps, as text that can be stored and displayed.

use serde::{Deserialize, Serialize};

use crate::record::Charge;

/// The maximum length of a failure message. Messages often contain text from external systems.
pub const MESSAGE_CHARS_MAX: usize = 512;

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable code in capitals: `LEASE_EXPIRED`, `HTTP_STATUS`, `EXPRESSION`.
    pub code: String,
    /// One sentence, at most [`MESSAGE_CHARS_MAX`] characters.
    pub message: String,
    /// What the failed attempt cost. The chain records it in an event of its own.
    #[serde(skip)]
    pub charge: Option<Box<Charge>>,
}

impl Failure {
    /// A failure with a bounded message and visible control characters.
    pub fn new(code: &str, message: impl AsRef<str>) -> Self {
        Self { code: code.to_owned(), message: bounded(message.as_ref(), MESSAGE_CHARS_MAX), charge: None }
    }

    /// The failure of an attempt with this cost.
    #[must_use]
    pub fn charged(self, charge: Charge) -> Self {
        Self { charge: Some(Box::new(charge)), ..self }
    }

    /// A failure caused by `last`, with its code and message.
    pub fn after(last: &Self, code: &str) -> Self {
        Self::new(code, format!("{}: {}", last.code, last.message))
    }
}

/// The first `chars_max` characters of `text`, with control characters replaced, so that it is safe to store and
/// display.
pub fn bounded(text: &str, chars_max: usize) -> String {
    text.chars().map(replace_control).take(chars_max).collect()
}

fn replace_control(c: char) -> char {
    if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c }
}

/// The lease expired before the worker finished.
pub const LEASE_EXPIRED: &str = "LEASE_EXPIRED";
/// Whether the effect happened is unknown.
pub const OUTCOME_UNKNOWN: &str = "OUTCOME_UNKNOWN";
/// All attempts at the step failed.
pub const ATTEMPTS_EXHAUSTED: &str = "ATTEMPTS_EXHAUSTED";
/// The awaited event did not arrive before the deadline.
pub const WAIT_TIMED_OUT: &str = "WAIT_TIMED_OUT";
/// The approval expired without a decision.
pub const APPROVAL_EXPIRED: &str = "APPROVAL_EXPIRED";
/// A user rejected the action.
pub const APPROVAL_REJECTED: &str = "APPROVAL_REJECTED";
/// Another run is performing the same effect.
pub const KEY_IN_FLIGHT: &str = "KEY_IN_FLIGHT";
/// An expression of the step could not be evaluated.
pub const EXPRESSION: &str = "EXPRESSION";
/// The input of the step is no longer stored.
pub const PAYLOAD_EXPIRED: &str = "PAYLOAD_EXPIRED";
/// The output of the step breaks a rule of the ledger.
pub const OUTPUT_INVALID: &str = "OUTPUT_INVALID";
/// The worker does not have the tool that the plan names.
pub const TOOL_UNKNOWN: &str = "TOOL_UNKNOWN";
/// Policy denied the action.
pub const POLICY_DENIED: &str = "POLICY_DENIED";
/// The action cannot be evaluated.
pub const ACTION_INVALID: &str = "ACTION_INVALID";
