//! The worker registry: lists workers, and asks one to drain.

use domain::audit::AdminChange;
use domain::{DrainRequest, Initiator, WorkerId, WorkerRecord, WorkerReport};
use store::{AuditedWrite, Store, Write};

use crate::core::audit::Admin;
use crate::core::commit::ROUNDS_MAX;
use crate::error::EngineError;
use crate::operations::OperationsService;
use crate::tenant_handle::TenantHandle;

impl<S: Store> TenantHandle<S> {
    /// The workers of the fleet, which serve every tenant, the oldest first.
    pub async fn workers(&self) -> Result<Vec<WorkerRecord>, EngineError> {
        OperationsService::new(&self.core).workers().await
    }
}

impl<S: Store> OperationsService<'_, S> {
    /// The workers with a heartbeat within a day, the oldest first.
    pub async fn workers(self) -> Result<Vec<WorkerRecord>, EngineError> {
        let mut workers = self.core.retry_busy(S::workers).await?;
        let now = self.core.now();
        workers.retain(|worker| worker.expires_at() > now);
        workers.sort_by(|a, b| (a.started_at, &a.worker).cmp(&(b.started_at, &b.worker)));
        Ok(workers)
    }

    /// A worker with a heartbeat within a day.
    pub async fn worker(self, worker: &WorkerId) -> Result<WorkerRecord, EngineError> {
        let found = self.core.retry_busy(|store| store.worker(worker)).await?;
        let now = self.core.now();
        let found = found.filter(|found| found.expires_at() > now);
        found.ok_or_else(|| EngineError::NoWorker { worker: worker.clone() })
    }

    /// Asks a worker to drain: it starts nothing new, finishes its messages, and exits. It sees the request at its
    /// next heartbeat. Returns its record. If it was requested before, the first request is kept; if it has stopped,
    /// nothing changes.
    pub async fn request_drain(
        self,
        worker: &WorkerId,
        by: &Initiator,
        reason: &str,
    ) -> Result<WorkerRecord, EngineError> {
        let request = DrainRequest::new(by.clone(), reason, self.core.now());
        for _ in 0..ROUNDS_MAX {
            let record = self.worker(worker).await?;
            if record.drain_request.is_some() || matches!(record.report, WorkerReport::Stopped { .. }) {
                return Ok(record);
            }
            let updated = record.with_drain_request(request.clone());
            let change =
                AdminChange::DrainRequested { worker: worker.clone(), reason: request.reason.clone() };
            let (admin, write) = (Admin { tenant: None, by }, AuditedWrite::Worker(updated.clone()));
            if self.core.write_audited(admin, write, change).await? == Write::Committed {
                tracing::warn!(event = "drain_requested", %worker, by = by.id, reason = request.reason, "worker drain requested");
                return Ok(updated);
            }
        }
        Err(EngineError::WorkerRecordContended { worker: worker.clone() })
    }
}
