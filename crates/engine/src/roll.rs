//! The roll: which workers there are, and the wish that one of them leaves.

use domain::{AskedToLeave, Enrolled, Initiator, Says, WorkerId};
use store::{Store, Write};

use crate::Engine;
use crate::commit::ROUNDS_MAX;
use crate::error::EngineError;

impl<S: Store> Engine<S> {
    /// The workers that were heard of within a day, the one that came first first.
    pub async fn workers(&self) -> Result<Vec<Enrolled>, EngineError> {
        let mut workers = self.patiently(|| self.store.roll()).await?;
        let now = self.now();
        workers.retain(|worker| worker.kept_until() > now);
        workers.sort_by(|a, b| (a.since, &a.worker).cmp(&(b.since, &b.worker)));
        Ok(workers)
    }

    /// A worker that was heard of within a day.
    pub async fn worker(&self, worker: &WorkerId) -> Result<Enrolled, EngineError> {
        let found = self.patiently(|| self.store.enrolled(worker)).await?;
        let now = self.now();
        let found = found.filter(|found| found.kept_until() > now);
        found.ok_or_else(|| EngineError::NoWorker { worker: worker.clone() })
    }

    /// Asks a worker to leave: it begins nothing any more, finishes what it has in hand, and goes. It hears of it when it
    /// signs next. Says how it stands. If it was asked before, whoever asked first is remembered; if it has left, there
    /// is nothing to ask.
    pub async fn ask_to_leave(
        &self,
        worker: &WorkerId,
        by: &Initiator,
        reason: &str,
    ) -> Result<Enrolled, EngineError> {
        let asked = AskedToLeave::new(by.clone(), reason, self.now());
        for _ in 0..ROUNDS_MAX {
            let stands = self.worker(worker).await?;
            if stands.asked.is_some() || matches!(stands.says, Says::Left { .. }) {
                return Ok(stands);
            }
            let told = stands.asked_to_leave(asked.clone());
            if self.patiently(|| self.store.enroll(told.clone())).await? == Write::Committed {
                tracing::warn!(%worker, by = by.id, reason = asked.reason, "a worker is asked to leave");
                return Ok(told);
            }
        }
        Err(EngineError::WorkerBusy { worker: worker.clone() })
    }
}
