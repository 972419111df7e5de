//! Inputs and outputs of steps: small values inline, large values by reference.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::json;

/// Larger payloads go to the blob store, and the ledger stores a reference. A DynamoDB item has at most 400 KB, and a
/// step record contains more than its output.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// A reference to a payload in the blob store, by content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// The plain SHA-256 of the bytes.
    pub sha256: Digest,
    /// The size.
    pub bytes: u64,
}

/// A value, inline or by reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// The value.
    Inline(Value),
    /// A reference to the value.
    Blob(BlobRef),
}

/// The fingerprint of a payload, used in events and evidence instead of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The digest of the canonical bytes.
    pub sha256: Digest,
    /// The number of canonical bytes.
    pub bytes: u64,
}

impl Fingerprint {
    /// The fingerprint of `value`.
    pub fn of(value: &Value) -> Self {
        Self::of_canonical(&json::canonical(value))
    }

    /// The fingerprint of a value, from its canonical bytes.
    pub fn of_canonical(canonical: &[u8]) -> Self {
        Self { sha256: Digest::of_bytes(canonical), bytes: canonical.len() as u64 }
    }
}
