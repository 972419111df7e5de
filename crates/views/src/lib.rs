//! Renders runs as text for users and as JSON for programs.
//!
//! [`RunSnapshot`] is a run at one point in time. The modules below render it. They are pure: they read neither the
//! store nor the clock.

mod canceled;
mod compensation;
mod event;
pub mod hint;
mod history;
mod json;
pub mod table;
mod text;
pub mod time;
pub mod time_arg;
pub mod timeline;
pub mod verdict;
mod waiting;

#[cfg(test)]
mod tests;

use domain::{Approval, ModelUsage, Receipt, RunId, RunKey, StepSeq, StepState, Tenant, Timestamp};
use engine::{DispatchState, Engine, EngineError, RunView, TenantHandle};
use evidence::{BundleComparison, TrustedKeys};
use store::Store;

use crate::hint::CommandHints;

pub use canceled::canceled;
pub use event::{EventDocument, event_document, event_json, event_line};
pub use history::{AttemptStatus, History};
pub use json::{
    AttemptDocument, CanceledDocument, ChainDocument, CompensationDocument, CostDocument, LeaseDocument,
    NextActionDocument, RunDocument, StepDocument, UsageDocument, WaitDocument, run_document, run_json,
};
pub use text::{counted, document_text, run_text, steps_table, tool};
pub use waiting::{NextAction, Waiting, waiting};

/// The cost of a step that ended, or of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepCharge<'a> {
    pub seq: StepSeq,
    /// Whether it is a cost of the rollback of the step.
    pub rollback: bool,
    pub microusd: u64,
    pub usage: Option<&'a ModelUsage>,
}

/// A run at one point in time.
pub struct RunSnapshot {
    /// The run with its steps and events.
    pub view: RunView,
    /// The receipt of an effect that is in progress, or whose outcome is unknown.
    pub open: Option<Receipt>,
    /// The dispatch switch; running for a finished run.
    pub dispatch: DispatchState,
    /// The settings of the tenant, if the run waits for an approval.
    pub tenant: Option<Tenant>,
    /// Why the approval request cannot be posted to Slack, if a person must change the connections first.
    pub unposted: Option<String>,
    pub now: Timestamp,
    /// How an ended run compares with its signed bundle, if the caller compared them.
    pub comparison: Option<BundleComparison>,
    /// Renders the commands that the user can run next.
    pub hints: CommandHints,
}

impl RunSnapshot {
    pub async fn load<S: Store>(
        engine: &Engine<S>,
        run: &RunKey,
        hints: CommandHints,
    ) -> Result<Self, EngineError> {
        let view = engine.operations().inspect(run).await?;
        let open = match waiting::open_intent(&view.record) {
            Some(intent) => engine.store().receipt(&run.tenant, &intent.key).await?,
            None => None,
        };
        let over = view.record.status.is_terminal();
        let dispatch =
            if over { DispatchState::default() } else { engine.operations().dispatch(&run.tenant).await? };
        let tenant = match view.record.step_state {
            StepState::WaitingApproval { .. } => Some(engine.governance().tenant(&run.tenant).await?),
            _ => None,
        };
        let workspace = &view.record.workspace;
        let unposted =
            tenant.as_ref().and_then(|tenant| engine.governance().unposted_reason(tenant, workspace));
        Ok(Self { view, open, dispatch, tenant, unposted, now: engine.now(), comparison: None, hints })
    }

    /// Loads a run of the tenant of `handle`.
    pub async fn load_for<S: Store>(
        handle: &TenantHandle<S>,
        run: &RunId,
        hints: CommandHints,
    ) -> Result<Self, EngineError> {
        let view = handle.run(run).await?;
        let open = match waiting::open_intent(&view.record) {
            Some(intent) => handle.receipt(&intent.key).await?,
            None => None,
        };
        let over = view.record.status.is_terminal();
        let dispatch = if over { DispatchState::default() } else { handle.dispatch().await? };
        let tenant = match view.record.step_state {
            StepState::WaitingApproval { .. } => Some(handle.tenant().await?),
            _ => None,
        };
        let workspace = &view.record.workspace;
        let unposted = tenant.as_ref().and_then(|tenant| handle.unposted_reason(tenant, workspace));
        Ok(Self { view, open, dispatch, tenant, unposted, now: handle.now(), comparison: None, hints })
    }

    /// Loads a run like [`Self::load_for`], and compares an ended run with its signed bundle.
    pub async fn load_compared<S: Store>(
        handle: &TenantHandle<S>,
        run: &RunId,
        hints: CommandHints,
        keys: Option<&TrustedKeys>,
    ) -> Result<Self, EngineError> {
        let snapshot = Self::load_for(handle, run, hints).await?;
        let comparison = handle.compare_with_bundle(&snapshot.view, keys).await;
        Ok(Self { comparison, ..snapshot })
    }

    /// What differs from the signed bundle.
    pub fn altered(&self) -> Option<&'static str> {
        match self.comparison {
            Some(BundleComparison::Altered { what }) => Some(what),
            Some(BundleComparison::Matches | BundleComparison::Unverified | BundleComparison::OtherKey)
            | None => None,
        }
    }

    /// Whether the bundle names another key than the configured one, so that nothing proves who signed it.
    pub fn has_other_signer(&self) -> bool {
        self.comparison == Some(BundleComparison::OtherKey)
    }

    /// What the run cost: a line for each step that ended, and one for each failed attempt.
    pub fn charges(&self) -> Vec<StepCharge<'_>> {
        let ended = self.view.steps.iter().map(|step| StepCharge {
            seq: step.seq,
            rollback: step.rollback,
            microusd: step.cost_microusd,
            usage: step.usage.as_ref(),
        });
        let failed = self.view.events.as_deref().unwrap_or_default().iter().filter_map(|event| {
            let domain::EventBody::AttemptCharged { cost_microusd, usage, .. } = &event.body else {
                return None;
            };
            let (seq, rollback) = (event.seq, event.rollback);
            Some(StepCharge { seq, rollback, microusd: *cost_microusd, usage: usage.as_ref() })
        });
        ended.chain(failed).filter(|cost| cost.microusd > 0 || cost.usage.is_some()).collect()
    }

    /// The latest approval.
    pub fn approval(&self) -> Option<&Approval> {
        self.view.approvals.last()
    }

    /// The history of each step. Empty if the chain does not verify.
    pub fn history(&self) -> History {
        let events = self.view.events.as_deref().unwrap_or_default();
        let record = &self.view.record;
        History::from_events(events, (record.at, &record.step_state))
    }
}
