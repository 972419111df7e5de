//! The worker registry.

use std::future::Future;

use domain::{WorkerId, WorkerRecord};

use crate::error::StoreError;
use crate::ledger::Write;

/// The maximum number of workers that [`WorkerRegistry::workers`] returns: more than a fleet runs, including the
/// workers that stopped within the last day.
pub const WORKERS_MAX: u32 = 5_000;

/// The workers of the fleet. The registry belongs to no tenant, because workers serve every tenant.
pub trait WorkerRegistry {
    /// Reads the record of a worker, strongly consistent.
    fn worker(
        &self,
        worker: &WorkerId,
    ) -> impl Future<Output = Result<Option<WorkerRecord>, StoreError>> + Send;

    /// Writes the record of a worker: a heartbeat or a drain request. `Superseded` if the stored revision is not
    /// `worker.revision - 1` (no record at all for revision 0).
    fn put_worker(&self, worker: WorkerRecord) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// The registered workers, ordered by id, at most [`WORKERS_MAX`]. A worker without a heartbeat for
    /// [`domain::worker_registry::RECORD_TTL`] may be missing.
    fn workers(&self) -> impl Future<Output = Result<Vec<WorkerRecord>, StoreError>> + Send;
}
