//! The roll: which workers there are, and the wish that one of them leaves.

use domain::{DrainRequest, Initiator, WorkerId, WorkerRecord, WorkerReport};
use store::{Store, Write};

use crate::Engine;
use crate::commit::ROUNDS_MAX;
use crate::error::EngineError;

impl<S: Store> Engine<S> {
    /// The workers that were heard of within a day, the one that came first first.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        let mut workers = self.retry_busy(|| self.store.roll()).await?;
        let now = self.now();
        workers.retain(|worker| worker.kept_until() > now);
        workers.sort_by(|a, b| (a.since, &a.worker).cmp(&(b.since, &b.worker)));
        Ok(workers)
    }

    /// A worker that was heard of within a day.
    pub async fn worker(&self, worker: &WorkerId) -> Result<WorkerRecord, EngineError> {
        let found = self.retry_busy(|| self.store.registered_worker(worker)).await?;
        let now = self.now();
        let found = found.filter(|found| found.kept_until() > now);
        found.ok_or_else(|| EngineError::NoWorker { worker: worker.clone() })
    }

    /// Asks a worker to leave: it begins nothing any more, finishes what it has in hand, and goes. It hears of it when it
    /// signs next. WorkerReport how it stands. If it was asked before, whoever asked first is remembered; if it has left, there
    /// is nothing to ask.
    pub async fn request_drain(
        &self,
        worker: &WorkerId,
        by: &Initiator,
        reason: &str,
    ) -> Result<WorkerRecord, EngineError> {
        let asked = DrainRequest::new(by.clone(), reason, self.now());
        for _ in 0..ROUNDS_MAX {
            let stands = self.worker(worker).await?;
            if stands.asked.is_some() || matches!(stands.says, WorkerReport::Left { .. }) {
                return Ok(stands);
            }
            let told = stands.with_drain_request(asked.clone());
            if self.retry_busy(|| self.store.put_worker(told.clone())).await? == Write::Committed {
                tracing::warn!(%worker, by = by.id, reason = asked.reason, "a worker is asked to leave");
                return Ok(told);
            }
        }
        Err(EngineError::WorkerBusy { worker: worker.clone() })
    }
}
