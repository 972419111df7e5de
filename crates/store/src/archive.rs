//! The transparency log and the evidence of runs.

use std::future::Future;

use domain::merkle::Position;
use domain::{Digest, Evidence, RunKey, RunRecord};

use crate::error::StoreError;
use crate::ledger::Write;

/// The transparency log and the location of each run's evidence. Both are append-only. A store has one log, or one
/// log for each tenant.
pub trait Archive {
    /// Whether each tenant has its own log. If so, the origin of the log must contain the tenant: two logs with one
    /// origin look like a forked log of one signer.
    const LOG_FOR_EACH_TENANT: bool;

    /// Appends `leaf` as the entry of `run`. If the run already has an entry, returns the position of that entry
    /// and appends nothing.
    fn append_log(
        &self,
        run: &RunKey,
        leaf: Digest,
    ) -> impl Future<Output = Result<Position, StoreError>> + Send;

    /// Records the location of the evidence of `run`. `Superseded` if a location is already recorded.
    fn put_evidence(
        &self,
        run: &RunKey,
        evidence: Evidence,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Reads the record of `run` and the location of its evidence in one consistent read.
    fn load_with_evidence(
        &self,
        run: &RunKey,
    ) -> impl Future<Output = Result<Option<(RunRecord, Option<Evidence>)>, StoreError>> + Send;

    /// Reads the location of the evidence of `run`.
    fn evidence(&self, run: &RunKey) -> impl Future<Output = Result<Option<Evidence>, StoreError>> + Send;
}
