//! Idempotency keys: names of side effects, and of the requests that start runs.
//!
//! A key says *which change outside* is meant (`sn:incident:update:…`), not which attempt at it, and is
//! unique per tenant. It never holds raw text from a payload: what could hold anything is hashed first.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{RunId, StepId, ToolName};
use crate::text::checked_text;

/// Keys become part of a table key, which holds at most 1,024 bytes beside the tenant.
pub const KEY_BYTES_MAX: usize = 512;

/// Names one side effect, or one request to start a run, within a tenant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IdempotencyKey(String);

/// Why a text is not an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// Nothing there.
    #[error("the idempotency key is empty")]
    Empty,
    /// Longer than [`KEY_BYTES_MAX`].
    #[error("the idempotency key has {bytes} bytes; at most {KEY_BYTES_MAX} are allowed")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A character outside the charset.
    #[error("the idempotency key holds {found:?}; allowed are visible ASCII characters without `#`")]
    Charset {
        /// The character that is not allowed.
        found: char,
    },
}

impl IdempotencyKey {
    /// Checks `text` and takes it as a key.
    pub fn new(text: &str) -> Result<Self, InvalidKey> {
        if text.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if text.len() > KEY_BYTES_MAX {
            return Err(InvalidKey::TooLong { bytes: text.len() });
        }
        // `#` joins key parts in the ledger.
        match text.chars().find(|c| !c.is_ascii_graphic() || *c == '#') {
            Some(found) => Err(InvalidKey::Charset { found }),
            None => Ok(Self(text.to_owned())),
        }
    }

    /// The key of a step whose tool has no better name for what it changes: this step of this run, once.
    pub fn for_step(tool: &ToolName, run: &RunId, step: &StepId) -> Self {
        Self(format!("{tool}:{run}:{step}"))
    }

    /// The key under which this effect is undone. It is hashed, so that it stays within the bound.
    #[must_use]
    pub fn undo(&self) -> Self {
        Self(format!("undo:{}", Digest::of_parts("countersign/undo-key/v1", &[&self.0])))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text!(IdempotencyKey, InvalidKey);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_visible_ascii_without_the_ledgers_delimiter() {
        assert!(IdempotencyKey::new("sn:incident:update:acme:9d38:ab12").is_ok());
        for bad in ["", "a#b", "a b", "ä", "a\u{7f}"] {
            assert!(IdempotencyKey::new(bad).is_err(), "{bad:?}");
        }
        assert!(IdempotencyKey::new(&"k".repeat(KEY_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn undoing_has_a_key_of_its_own() {
        let key = IdempotencyKey::new(&"k".repeat(KEY_BYTES_MAX)).unwrap();
        assert_ne!(key.undo(), key);
        assert!(IdempotencyKey::new(key.undo().as_str()).is_ok());
    }
}
