//! The dispatch switch, as a driver reads it.
//!
//! A driver checks the switch before it starts anything: a claim, an approval request, a wait. The answer is cached
//! briefly, so that a step does not cost a read; every process sees a stop after that.

use std::collections::BTreeMap;

use domain::{DispatchStop, Fleet, Millis, RunRecord, Tenant, TenantId};
use parking_lot::Mutex;
use store::Store;
use tokio::time::Instant;

use crate::core::Core;
use crate::error::EngineError;

/// How long an answer is cached.
const BELIEVED_FOR: Millis = Millis::secs(1);

/// A worker serves a few tenants; beyond this many the cache is cleared.
const REMEMBERED_MAX: usize = 1_024;

/// The state of dispatch for a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchState {
    /// Set while dispatch is stopped for all tenants.
    pub fleet: Option<DispatchStop>,
    /// Set while dispatch is stopped for this tenant.
    pub tenant: Option<DispatchStop>,
}

impl DispatchState {
    fn of(fleet: Option<Fleet>, settled: Option<Tenant>) -> Self {
        Self {
            fleet: fleet.and_then(|fleet| fleet.stopped),
            tenant: settled.and_then(|settled| settled.stopped),
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.fleet.is_some() || self.tenant.is_some()
    }

    /// The stop that applies to `run`, and whether it is the fleet's; `None` if work may start.
    pub fn forbids(&self, run: &RunRecord) -> Option<(bool, &DispatchStop)> {
        let fleet = self.fleet.iter().map(|stopped| (true, stopped));
        let tenant = self.tenant.iter().map(|stopped| (false, stopped));
        fleet.chain(tenant).find(|(_, stopped)| !stopped.allows(run))
    }
}

/// For which tenants dispatch was found running, and when. A stop is never cached: starting dispatch announces the
/// waiting runs, and a stale answer must not turn them away.
#[derive(Default)]
pub(crate) struct Switches {
    on: Mutex<BTreeMap<TenantId, Instant>>,
}

impl Switches {
    fn is_on(&self, tenant: &TenantId) -> bool {
        let on = self.on.lock();
        on.get(tenant).is_some_and(|asked| asked.elapsed() < BELIEVED_FOR.std())
    }

    fn found_on(&self, tenant: &TenantId, asked: Instant) {
        let mut on = self.on.lock();
        if on.len() >= REMEMBERED_MAX {
            on.clear();
        }
        on.insert(tenant.clone(), asked);
    }

    pub(crate) fn forget(&self) {
        self.on.lock().clear();
    }
}

impl<S: Store> Core<S> {
    pub(crate) async fn dispatch(&self, tenant: &TenantId) -> Result<DispatchState, EngineError> {
        let (fleet, settled) = tokio::try_join!(
            biased;
            self.retry_busy(S::fleet),
            self.retry_busy(|store| store.tenant(tenant)),
        )?;
        Ok(DispatchState::of(fleet, settled))
    }

    /// The state of dispatch for `tenant`, by an eventually consistent read.
    async fn eventual(&self, tenant: &TenantId) -> Result<DispatchState, EngineError> {
        let (fleet, settled) = self.retry_busy(|store| store.eventual(tenant)).await?;
        Ok(DispatchState::of(fleet, settled))
    }

    /// Whether work may start for `run`, by the cached state.
    pub(crate) async fn may_begin(&self, run: &RunRecord) -> Result<bool, EngineError> {
        let tenant = &run.key.tenant;
        if self.switches.is_on(tenant) {
            return Ok(true);
        }
        let asked = Instant::now();
        if !self.eventual(tenant).await?.is_stopped() {
            self.switches.found_on(tenant, asked);
            return Ok(true);
        }
        // Dispatch may have been started since, and a start announces each run only once: read consistently.
        Ok(self.dispatch(tenant).await?.forbids(run).is_none())
    }
}
