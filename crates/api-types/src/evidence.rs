//! Receipts and evidence.

use domain::{Digest, Receipt, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The receipts of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Receipts {
    /// What was attempted outside, what happened, and how to undo it; in the order of the chain.
    #[schema(value_type = Vec<Object>)]
    pub receipts: Vec<Receipt>,
}

/// Whether the evidence of a run is genuine, as the server finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// Which run.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Whether all of it holds.
    pub verified: bool,
    /// What was verified, in a line.
    pub summary: Option<String>,
    /// What is wrong, if something is.
    pub fault: Option<String>,
    /// The public key it was verified with, by its id. Whoever must know who signed it has that key from elsewhere.
    #[schema(value_type = String)]
    pub key: Digest,
    /// The SHA-256 of the file.
    #[schema(value_type = String)]
    pub sha256: Digest,
    /// The run's number in the log of runs.
    pub index: u64,
}
