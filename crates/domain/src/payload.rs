//! What a step takes and gives: small values in place, large ones by pointer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::json;

/// Above this a payload goes to the blob store and the ledger keeps a pointer: a ledger item holds at most
/// 400 KB on DynamoDB, and a step's record holds more than its output.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Points at a payload in the blob store by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// The plain SHA-256 of the bytes.
    pub sha256: Digest,
    /// How many there are.
    pub bytes: u64,
}

/// A value, in place or by pointer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    /// Here it is.
    Inline(Value),
    /// There it is.
    Blob(BlobRef),
}

/// A payload's fingerprint: what goes into events and evidence in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The digest of the canonical bytes.
    pub sha256: Digest,
    /// How many canonical bytes there are.
    pub bytes: u64,
}

impl Fingerprint {
    /// The fingerprint of `value`.
    pub fn of(value: &Value) -> Self {
        Self::of_canonical(&json::canonical(value))
    }

    /// The fingerprint of a value whose canonical bytes are at hand.
    pub fn of_canonical(canonical: &[u8]) -> Self {
        Self { sha256: Digest::of_bytes(canonical), bytes: canonical.len() as u64 }
    }
}
