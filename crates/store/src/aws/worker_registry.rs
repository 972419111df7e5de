//! The worker registry.

use domain::{WorkerId, WorkerRecord};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;
use crate::worker_registry::{WORKERS_MAX, WorkerRegistry};

use super::item::{BODY, Item, REVISION, number, text};
use super::key::Key;
use super::{AwsStore, Condition, TIME_TO_LIVE, build_item};

impl<Q, B> WorkerRegistry for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn worker(&self, worker: &WorkerId) -> Result<Option<WorkerRecord>, StoreError> {
        self.get_body(&Key::worker(worker.as_str()), "read a worker record").await
    }

    async fn put_worker(&self, worker: WorkerRecord) -> Result<Write, StoreError> {
        let doing = "write a worker record";
        let (item, condition) = Self::worker_item(&worker, doing)?;
        self.put(item, condition, doing).await
    }

    async fn workers(&self) -> Result<Vec<WorkerRecord>, StoreError> {
        let doing = "list the workers";
        let ends = (&Key::worker(""), &Key::worker("~"));
        let mut workers = Vec::new();
        for item in self.range(ends, WORKERS_MAX, doing).await? {
            workers.push(self.decode_body(&item, doing).await?);
        }
        Ok(workers)
    }
}

impl<Q, B> AwsStore<Q, B> {
    /// The item of a worker record, and the condition under which it is written.
    pub(super) fn worker_item(
        worker: &WorkerRecord,
        doing: &'static str,
    ) -> Result<(Item, Condition), StoreError> {
        // A worker record is short, so it is always inline: a blob would need a tenant.
        let body = serde_json::to_string(worker).map_err(|error| StoreError::broken(doing, error))?;
        let expires_at = number(worker.expires_at().0 / 1_000);
        let item = build_item(
            &Key::worker(worker.worker.as_str()),
            [(REVISION, number(worker.revision)), (BODY, text(body)), (TIME_TO_LIVE, expires_at)],
        );
        let condition = worker.revision.checked_sub(1).map_or_else(Condition::is_new, Condition::revision);
        Ok((item, condition))
    }
}
