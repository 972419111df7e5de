//! Dispatch: the switch that stops new work.
//!
//! A driver that finds dispatch stopped deletes its message: every run that can advance is in the due index, and
//! starting dispatch enqueues those that wait.

use std::cmp::Ordering;

use domain::audit::AdminChange;
use domain::dispatch::RECORD_FORMAT;
use domain::{
    DispatchStop, Fleet, Initiator, Job, Millis, Outgoing, QueueName, RunKey, RunRecord, RunStatus,
    StepState, Tenant, TenantId,
};
use serde::{Deserialize, Serialize};
use store::{AuditedWrite, Store, StoreError, Write, trace};

use crate::core::audit::Admin;
use crate::core::commit::ROUNDS_MAX;
use crate::core::dispatch::DispatchState;
use crate::error::EngineError;
use crate::operations::OperationsService;
use crate::operations::pages::{BatchLimit, Pages, ResumePosition, Tenants};
use crate::tenant_handle::TenantHandle;

/// Every process has seen a stop after this long: one second of caching, and one for the store's eventually
/// consistent read.
pub const STOP_VISIBLE_AFTER: Millis = Millis::secs(2);

/// Which tenants a switch applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DispatchScope {
    Tenant(TenantId),
    All,
}

/// The progress of a start that continues in a later call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartProgress {
    enqueued: u64,
    from: ResumePosition,
}

impl<S: Store> TenantHandle<S> {
    pub async fn dispatch(&self) -> Result<DispatchState, EngineError> {
        self.core.dispatch(&self.tenant).await
    }

    pub async fn stop_dispatch(&self, reason: &str) -> Result<DispatchStop, EngineError> {
        OperationsService::new(&self.core).stop_dispatch(&self.scope(), &self.admin(), reason).await
    }

    /// Does a part of a start; returns the number of runs and the remaining work.
    pub async fn start_part(
        &self,
        so_far: Option<StartProgress>,
    ) -> Result<(u64, Option<StartProgress>), EngineError> {
        OperationsService::new(&self.core).start_part(&self.scope(), &self.admin(), so_far).await
    }

    pub(super) fn scope(&self) -> DispatchScope {
        DispatchScope::Tenant(self.tenant.clone())
    }
}

impl<S: Store> OperationsService<'_, S> {
    /// The state of dispatch for a tenant.
    pub async fn dispatch(self, tenant: &TenantId) -> Result<DispatchState, EngineError> {
        self.core.dispatch(tenant).await
    }

    pub async fn fleet_stopped(self) -> Result<Option<DispatchStop>, EngineError> {
        Ok(self.core.retry_busy(S::fleet).await?.and_then(|fleet| fleet.stopped))
    }

    /// Stops dispatch; returns its state. Every process observes the stop within [`STOP_VISIBLE_AFTER`] of the return.
    /// Steps in progress finish. If it was stopped before, the first stop is kept.
    pub async fn stop_dispatch(
        self,
        scope: &DispatchScope,
        by: &Initiator,
        reason: &str,
    ) -> Result<DispatchStop, EngineError> {
        let request = DispatchStop::new(by.clone(), reason, self.core.now());
        self.stop(scope, request).await
    }

    pub(crate) async fn stop(
        self,
        scope: &DispatchScope,
        request: DispatchStop,
    ) -> Result<DispatchStop, EngineError> {
        let merge =
            |before: DispatchStop| DispatchStop { backout: before.backout.or(request.backout), ..before };
        let update = |current: Option<DispatchStop>| Some(current.map_or_else(|| request.clone(), merge));
        let change = AdminChange::DispatchStopped {
            reason: request.reason.clone(),
            backout: request.backout.is_some(),
        };
        let current = self.set_switch(scope, &request.by, update, &change).await?;
        tracing::warn!(
            event = "dispatch_stopped",
            ?scope,
            by = request.by.id,
            reason = request.reason,
            "dispatch stopped"
        );
        Ok(current.unwrap_or(request))
    }

    /// Starts dispatch and enqueues every run that can advance; returns how many. If this is cut short, the sweep
    /// wakes the rest.
    pub async fn start_dispatch(self, scope: &DispatchScope, by: &Initiator) -> Result<u64, EngineError> {
        let mut so_far = None;
        loop {
            let (enqueued, rest) = self.start_part(scope, by, so_far).await?;
            match rest {
                Some(rest) => so_far = Some(rest),
                None => return Ok(enqueued),
            }
        }
    }

    /// Does a part of a start; returns the number of runs and the remaining work.
    pub async fn start_part(
        self,
        scope: &DispatchScope,
        by: &Initiator,
        so_far: Option<StartProgress>,
    ) -> Result<(u64, Option<StartProgress>), EngineError> {
        if so_far.is_none() {
            self.set_switch(scope, by, |_| None, &AdminChange::DispatchStarted).await?;
            tracing::warn!(event = "dispatch_started", ?scope, by = by.id, "dispatch started");
        }
        let (mut enqueued, mut from) =
            so_far.map_or((0, None), |StartProgress { enqueued, from }| (enqueued, Some(from)));
        let mut limit = BatchLimit::start();
        let mut tenants = Tenants::of(scope, &mut from);
        while let Some(tenant) = tenants.next(self.core).await? {
            let mut pages = Pages::of(&tenant, None, from.as_ref());
            while let Some(runs) = pages.next(self.core).await? {
                enqueued += self.enqueue_runs(&runs).await?;
                limit.add(runs.len());
                if let Some(from) = pages.bookmark().filter(|_| limit.is_full()) {
                    let from = from.with_later_tenants(tenants);
                    return Ok((enqueued, Some(StartProgress { enqueued, from })));
                }
            }
        }
        Ok((enqueued, None))
    }

    /// Applies `update` to the switch and returns its new state.
    async fn set_switch(
        self,
        scope: &DispatchScope,
        by: &Initiator,
        update: impl Fn(Option<DispatchStop>) -> Option<DispatchStop>,
        change: &AdminChange,
    ) -> Result<Option<DispatchStop>, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let (current, written) = match scope {
                DispatchScope::Tenant(tenant) => {
                    let admin = Admin { tenant: Some(tenant), by };
                    self.set_tenant_switch(tenant, admin, &update, change).await?
                }
                DispatchScope::All => {
                    self.set_fleet_switch(Admin { tenant: None, by }, &update, change).await?
                }
            };
            if written == Write::Committed {
                // This process sees the change at once.
                self.core.dispatch_cache.clear();
                return Ok(current);
            }
        }
        Err(StoreError::Busy { doing: "change the dispatch switch" }.into())
    }

    async fn set_tenant_switch(
        self,
        id: &TenantId,
        admin: Admin<'_>,
        update: &impl Fn(Option<DispatchStop>) -> Option<DispatchStop>,
        change: &AdminChange,
    ) -> Result<(Option<DispatchStop>, Write), EngineError> {
        let before = self.core.retry_busy(|store| store.tenant(id)).await?;
        let revision = before.as_ref().map_or(0, |before| before.revision.saturating_add(1));
        let before = before.unwrap_or_else(|| Tenant::new(id.clone()));
        let stopped = update(before.stopped.clone());
        if stopped == before.stopped {
            return Ok((stopped, Write::Committed));
        }
        let after = Tenant { stopped: stopped.clone(), revision, ..before };
        let written = self.core.write_audited(admin, AuditedWrite::Tenant(after), change.clone()).await?;
        Ok((stopped, written))
    }

    async fn set_fleet_switch(
        self,
        admin: Admin<'_>,
        update: &impl Fn(Option<DispatchStop>) -> Option<DispatchStop>,
        change: &AdminChange,
    ) -> Result<(Option<DispatchStop>, Write), EngineError> {
        let before = self.core.retry_busy(S::fleet).await?;
        let revision = before.as_ref().map_or(0, |before| before.revision.saturating_add(1));
        let before = before.unwrap_or_default();
        let stopped = update(before.stopped.clone());
        if stopped == before.stopped {
            return Ok((stopped, Write::Committed));
        }
        let after = Fleet { stopped: stopped.clone(), revision, ..before };
        let written = self.core.write_audited(admin, AuditedWrite::Fleet(after), change.clone()).await?;
        Ok((stopped, written))
    }

    /// Records the format of this program's records, so that older programs start no steps from now on. Fails if this
    /// program is older than another that has started.
    pub async fn register_record_format(self) -> Result<(), EngineError> {
        for _ in 0..ROUNDS_MAX {
            let before = self.core.retry_busy(S::fleet).await?;
            let revision = before.as_ref().map_or(0, |before| before.revision.saturating_add(1));
            let before = before.unwrap_or_default();
            match before.format.cmp(&RECORD_FORMAT) {
                Ordering::Equal => return Ok(()),
                Ordering::Greater => {
                    return Err(EngineError::UnsupportedRecordFormat { format: before.format });
                }
                Ordering::Less => {}
            }
            let after = Fleet { format: RECORD_FORMAT, revision, ..before };
            if self.core.retry_busy(|store| store.put_fleet(after.clone())).await? == Write::Committed {
                return Ok(());
            }
        }
        Err(StoreError::Busy { doing: "record the format" }.into())
    }

    /// Enqueues those of `runs` that can advance; returns how many.
    async fn enqueue_runs(self, runs: &[RunRecord]) -> Result<u64, EngineError> {
        let mut enqueued = 0;
        for run in runs.iter().filter(|run| can_advance(run)) {
            trace::with_context(run.trace_context(), self.enqueue_run(&run.key)).await?;
            enqueued += 1;
        }
        Ok(enqueued)
    }

    pub(crate) async fn enqueue_run(self, run: &RunKey) -> Result<(), EngineError> {
        let run = run.clone();
        let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
        Ok(self.core.retry_busy(|store| store.send(&message)).await?)
    }
}

/// Whether a driver would find something to do, now or when a lease expires.
fn can_advance(run: &RunRecord) -> bool {
    let has_work = match &run.step_state {
        StepState::Ready { .. } | StepState::Running(_) | StepState::Retrying { .. } => true,
        StepState::Unresolved { .. }
        | StepState::WaitingEvent { .. }
        | StepState::WaitingApproval { .. }
        | StepState::Ended { .. } => false,
    };
    has_work && run.status != RunStatus::Paused
}
