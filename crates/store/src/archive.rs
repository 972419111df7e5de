//! What outlives a run: the log of runs, and where their evidence is.

use std::future::Future;

use domain::merkle::Position;
use domain::{Digest, Evidence, RunKey, RunRecord};

use crate::error::StoreError;
use crate::ledger::Write;

/// The log of runs and their evidence. Nothing here is ever changed or taken away. A store keeps one log, or one
/// for each tenant.
pub trait Archive {
    /// Whether each tenant has a log of its own, which must go by a name of its own, too: two logs under one name would look
    /// like two stories of one signer.
    const LOG_FOR_EACH_TENANT: bool;

    /// Appends the entry of `run` to the log, or finds where it was appended before.
    fn append_log(
        &self,
        run: &RunKey,
        leaf: Digest,
    ) -> impl Future<Output = Result<Position, StoreError>> + Send;

    /// Records where the evidence of `run` is. Superseded if that is recorded already.
    fn put_evidence(
        &self,
        run: &RunKey,
        evidence: Evidence,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// The record of `run` and where its evidence is, in one reading.
    fn filed(
        &self,
        run: &RunKey,
    ) -> impl Future<Output = Result<Option<(RunRecord, Option<Evidence>)>, StoreError>> + Send;

    /// Where the evidence of `run` is.
    fn evidence(&self, run: &RunKey) -> impl Future<Output = Result<Option<Evidence>, StoreError>> + Send;
}
