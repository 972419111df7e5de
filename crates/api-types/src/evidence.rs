//! Receipts and evidence.

use domain::{Digest, Receipt, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The receipts of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Receipts {
    /// The attempted effects with their outcome and their undo, in the order of the chain.
    #[schema(value_type = Vec<Object>)]
    pub receipts: Vec<Receipt>,
}

/// The result of the server's verification of the evidence of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    #[schema(value_type = String)]
    pub run: RunId,
    pub verified: bool,
    /// The verified facts, in one line.
    pub summary: Option<String>,
    /// The first error, if the verification fails.
    pub error: Option<String>,
    /// The id of the public key of the server. To prove who signed the evidence, verify it with a key from another
    /// source.
    #[schema(value_type = String)]
    pub key_id: Digest,
    /// The SHA-256 of the evidence file.
    #[schema(value_type = String)]
    pub sha256: Digest,
    /// The index of the run in the log.
    pub index: u64,
}
