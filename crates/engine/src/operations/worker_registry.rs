//! The worker registry: lists workers, and asks one to drain.

use domain::{DrainRequest, Initiator, WorkerId, WorkerRecord, WorkerReport};
use store::{Store, Write};

use crate::Engine;
use crate::commit::ROUNDS_MAX;
use crate::error::EngineError;

impl<S: Store> Engine<S> {
    /// The workers with a heartbeat within a day, the oldest first.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        let mut workers = self.retry_busy(|| self.store.workers()).await?;
        let now = self.now();
        workers.retain(|worker| worker.expires_at() > now);
        workers.sort_by(|a, b| (a.started_at, &a.worker).cmp(&(b.started_at, &b.worker)));
        Ok(workers)
    }

    /// A worker with a heartbeat within a day.
    pub async fn worker(&self, worker: &WorkerId) -> Result<WorkerRecord, EngineError> {
        let found = self.retry_busy(|| self.store.worker(worker)).await?;
        let now = self.now();
        let found = found.filter(|found| found.expires_at() > now);
        found.ok_or_else(|| EngineError::NoWorker { worker: worker.clone() })
    }

    /// Asks a worker to drain: it starts nothing new, finishes its messages, and exits. It sees the request at its
    /// next heartbeat. Returns its record. If it was request before, the first request is kept; if it has stopped,
    /// nothing changes.
    pub async fn request_drain(
        &self,
        worker: &WorkerId,
        by: &Initiator,
        reason: &str,
    ) -> Result<WorkerRecord, EngineError> {
        let request = DrainRequest::new(by.clone(), reason, self.now());
        for _ in 0..ROUNDS_MAX {
            let record = self.worker(worker).await?;
            if record.drain_request.is_some() || matches!(record.report, WorkerReport::Stopped { .. }) {
                return Ok(record);
            }
            let updated = record.with_drain_request(request.clone());
            if self.retry_busy(|| self.store.put_worker(updated.clone())).await? == Write::Committed {
                tracing::warn!(event = "drain_requested", %worker, by = by.id, reason = request.reason, "worker request to drain");
                return Ok(updated);
            }
        }
        Err(EngineError::WorkerBusy { worker: worker.clone() })
    }
}
