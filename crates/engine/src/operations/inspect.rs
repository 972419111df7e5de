//! Inspect: a run with its steps, approvals and verified chain.

use std::sync::Arc;

use domain::{Approval, Event, Plan, RunKey, RunRecord, StepRecord, chain};
use store::Store;
use workflow::CompiledPlan;

use crate::Engine;
use crate::commit::ROUNDS_MAX;
use crate::error::EngineError;

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
    pub events: Result<Vec<Event>, chain::ChainFault>,
}

impl RunView {
    pub fn plan(&self) -> &Plan {
        self.plan.plan()
    }
}

impl<S: Store> Engine<S> {
    pub async fn inspect(&self, run: &RunKey) -> Result<RunView, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let loaded = self.load(run).await?;
            let (entries, steps) = self.retry_busy(|| self.store.history(run, EVENTS_MAX)).await?;
            // Read in parts; read again if the run changed in between.
            let counted = usize::try_from(loaded.record.events).unwrap_or(usize::MAX);
            if entries.len() > counted {
                continue;
            }
            let approvals = self.retry_busy(|| self.store.approvals(run)).await?;
            let events = chain::verify(run, &entries, loaded.record.events, &loaded.record.head);
            return Ok(RunView { record: loaded.record, plan: loaded.plan, steps, approvals, events });
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }
}
