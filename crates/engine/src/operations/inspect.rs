//! Inspect: a run with its steps, approvals and verified chain.

use std::sync::Arc;

use domain::chain::StoredEvent;
use domain::{Approval, Event, IdempotencyKey, Plan, Receipt, RunId, RunKey, RunRecord, StepRecord, chain};
use store::{RunPage, RunQuery, Store};
use workflow::CompiledPlan;

use crate::core::commit::ROUNDS_MAX;
use crate::error::EngineError;
use crate::operations::OperationsService;
use crate::tenant_handle::TenantHandle;

/// More than any run has: each of its 64 steps may be attempted twenty times and rolled back.
pub(crate) const EVENTS_MAX: u32 = 10_000;

#[derive(Clone)]
pub struct RunView {
    pub record: RunRecord,
    plan: Arc<CompiledPlan>,
    /// The steps that ended.
    pub steps: Vec<StepRecord>,
    /// The approval requests, in order.
    pub approvals: Vec<Approval>,
    /// The events, if the chain verifies.
    pub events: Result<Vec<Event>, chain::ChainError>,
}

impl RunView {
    pub fn plan(&self) -> &Plan {
        self.plan.plan()
    }
}

impl<S: Store> TenantHandle<S> {
    pub async fn runs(&self, query: RunQuery) -> Result<RunPage, EngineError> {
        Ok(self.core.retry_busy(|store| store.runs(&self.tenant, query.clone())).await?)
    }

    pub async fn run(&self, run: &RunId) -> Result<RunView, EngineError> {
        self.explain_missing_run(OperationsService::new(&self.core).inspect(&self.key(run)).await).await
    }

    pub async fn record(&self, run: &RunId) -> Result<RunRecord, EngineError> {
        self.explain_missing_run(self.core.record(&self.key(run)).await).await
    }

    /// The run's chain from event `from` on, at most `limit` entries; empty if there is no such run.
    pub async fn events(&self, run: &RunId, from: u32, limit: u32) -> Result<Vec<StoredEvent>, EngineError> {
        let key = self.key(run);
        Ok(self.core.retry_busy(|store| store.events(&key, from, limit)).await?)
    }

    pub async fn receipt(&self, key: &IdempotencyKey) -> Result<Option<Receipt>, EngineError> {
        Ok(self.core.retry_busy(|store| store.receipt(&self.tenant, key)).await?)
    }
}

impl<S: Store> OperationsService<'_, S> {
    pub async fn inspect(self, run: &RunKey) -> Result<RunView, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let loaded = self.core.load(run).await?;
            let (entries, steps) = self.core.retry_busy(|store| store.history(run, EVENTS_MAX)).await?;
            // Read in parts; read again if the run changed in between.
            let counted = usize::try_from(loaded.record.events).unwrap_or(usize::MAX);
            if entries.len() > counted {
                continue;
            }
            let approvals = self.core.retry_busy(|store| store.approvals(run)).await?;
            let events = chain::verify(run, &entries, loaded.record.events, &loaded.record.head);
            return Ok(RunView { record: loaded.record, plan: loaded.plan, steps, approvals, events });
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }
}
