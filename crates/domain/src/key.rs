//! Idempotency keys of effects and of requests to start runs.
//!
//! A key identifies the *effect* (`sn:incident:update:…`), not one attempt at it, and is unique per tenant. It never
//! contains raw text from a payload: such text is hashed first.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{RunId, StepId, ToolName};
use crate::text::checked_text;

/// Keys are part of a store key, which has at most 1,024 bytes including the tenant.
pub const KEY_BYTES_MAX: usize = 512;

/// Identifies one effect, or one request to start a run, within a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdempotencyKey(String);

/// Why a text is not an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdempotencyKey {
    /// The text is empty.
    #[error("the idempotency key is empty")]
    Empty,
    /// Longer than [`KEY_BYTES_MAX`].
    #[error("the idempotency key has {bytes} bytes; the maximum is {KEY_BYTES_MAX}")]
    TooLong {
        /// The length.
        bytes: usize,
    },
    /// A character that is not allowed.
    #[error("the idempotency key contains {found:?}; allowed are visible ASCII characters except `#`")]
    Charset {
        /// The character.
        found: char,
    },
}

impl IdempotencyKey {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, InvalidIdempotencyKey> {
        if text.is_empty() {
            return Err(InvalidIdempotencyKey::Empty);
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(InvalidIdempotencyKey::TooLong { bytes: text.len() });
        }
        // `#` separates the parts of ledger keys.
        match text.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
            Some(found) => Err(InvalidIdempotencyKey::Charset { found }),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The key of a step whose tool names none: one effect per step of a run.
    pub fn for_step(tool: &ToolName, run: &RunId, step: &StepId) -> Self {
        Self(format!("{tool}:{run}:{step}"))
    }

    /// The key of the effect that undoes this one. Hashed, so that it stays within the length limit.
    #[must_use]
    pub fn reverse(&self) -> Self {
        Self(format!("reverse:{}", Digest::of_parts("countersign/reverse-key/v1", &[&self.0])))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text!(IdempotencyKey, InvalidIdempotencyKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_visible_ascii_without_delimiter() {
        assert!(IdempotencyKey::new("sn:incident:update:acme:9d38:ab12").is_ok());
        for bad in ["", "a#b", "a b", "ä", "a\u{7f}"] {
            assert!(IdempotencyKey::new(bad).is_err(), "{bad:?}");
        }
        assert!(IdempotencyKey::new(&"k".repeat(KEY_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn reverse_key_differs() {
        let key = IdempotencyKey::new(&"k".repeat(KEY_BYTES_MAX)).unwrap();
        assert_ne!(key.reverse(), key);
        assert!(IdempotencyKey::new(key.reverse().as_str()).is_ok());
    }
}
