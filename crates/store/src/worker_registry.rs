//! The roll of workers.

use std::future::Future;

use domain::{WorkerId, WorkerRecord};

use crate::error::StoreError;
use crate::ledger::Write;

/// At most so many workers are told of: more than a fleet has, with all that vanished from it within a day.
pub const WORKERS_MAX: u32 = 5_000;

/// Which workers there are. The roll is nobody's: workers serve every tenant.
pub trait WorkerRegistry {
    /// A worker on the roll.
    fn registered_worker(
        &self,
        worker: &WorkerId,
    ) -> impl Future<Output = Result<Option<WorkerRecord>, StoreError>> + Send;

    /// Writes a worker's place; superseded unless what stands there has the revision before.
    fn put_worker(&self, worker: WorkerRecord) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// The workers on the roll, by name, at most [`WORKERS_MAX`] of them. One that has not signed for [`domain::worker_registry::KEPT_FOR`] may be missing.
    fn roll(&self) -> impl Future<Output = Result<Vec<WorkerRecord>, StoreError>> + Send;
}
