//! The transparency log and the evidence of runs.

use std::future::Future;

use domain::merkle::Position;
use domain::{Digest, Evidence, RunId, RunKey, RunRecord};

use crate::error::StoreError;
use crate::ledger::Write;

/// The position of a run in the log with this name. The name is part of the origin of the log: two logs with one
/// origin look like a forked log of one signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// The name of the log.
    pub log: String,
    /// The position of the run's entry.
    pub position: Position,
}

/// The transparency log and the location of each run's evidence. Both are append-only. A store has one log, or one
/// log for each tenant.
pub trait Archive {
    /// The name of the bundle of `run`. A restored copy of a store gives other names to the bundles that it adds, if
    /// the bundles of the original still exist.
    fn bundle_name(&self, run: &RunId) -> String;

    /// Appends `leaf` as the entry of `run`. If the run already has an entry, returns the position of that entry
    /// and appends nothing. The caller must check that the position holds `leaf`.
    fn append_log(
        &self,
        run: &RunKey,
        leaf: Digest,
    ) -> impl Future<Output = Result<LogPosition, StoreError>> + Send;

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
