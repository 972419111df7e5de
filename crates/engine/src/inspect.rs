//! Inspect: everything there is to know about a run, with its chain verified.

use std::sync::Arc;

use domain::{Approval, Event, Plan, RunKey, RunRecord, StepRecord, chain};
use store::Store;
use workflow::CompiledPlan;

use crate::Engine;
use crate::commit::ROUNDS_MAX;
use crate::error::EngineError;

/// More than any run has: each of its 64 steps may be tried twenty times, and taken back.
pub(crate) const EVENTS_MAX: u32 = 10_000;

/// A run, whole.
#[derive(Clone)]
pub struct RunView {
    /// Its record.
    pub record: RunRecord,
    plan: Arc<CompiledPlan>,
    /// The steps that ended.
    pub steps: Vec<StepRecord>,
    /// The requests for approval, in the order they were made.
    pub approvals: Vec<Approval>,
    /// What happened, if the chain holds.
    pub events: Result<Vec<Event>, chain::ChainFault>,
}

impl RunView {
    /// Its plan.
    pub fn plan(&self) -> &Plan {
        self.plan.plan()
    }
}

impl<S: Store> Engine<S> {
    /// Everything there is to know about a run.
    pub async fn inspect(&self, run: &RunKey) -> Result<RunView, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let loaded = self.load(run).await?;
            let (entries, steps) = self.retry_busy(|| self.store.history(run, EVENTS_MAX)).await?;
            // Read in parts; if the run moved in between, look again.
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
