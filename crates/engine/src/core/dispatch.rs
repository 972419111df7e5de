//! The dispatch switch, as a driver reads it.
//!
//! A driver checks the switch before it starts anything: a claim, an approval request, a wait. The answer is cached
//! briefly, so that a step does not cost a read; every process sees a stop after that. The same read brings the policy
//! under which reads of external systems are evaluated.

use std::collections::BTreeMap;

use domain::dispatch::RECORD_FORMAT;
use domain::{DispatchStop, Fleet, Millis, RunRecord, Tenant, TenantId};
use parking_lot::Mutex;
use store::Store;
use tokio::time::Instant;

use crate::core::Core;
use crate::error::EngineError;

/// How long an answer is cached.
const CACHED_FOR: Millis = Millis::secs(1);

/// A worker sees fewer tenants within a second; beyond this many the cache is cleared.
const TENANTS_MAX: usize = 4_096;

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

/// When dispatch was found running: for the fleet, which all tenants share, and for each tenant. A stop is never cached:
/// starting dispatch announces the waiting runs, and a stale answer must not turn them away.
#[derive(Default)]
pub(crate) struct DispatchCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    fleet: Option<Instant>,
    tenants: BTreeMap<TenantId, CachedTenant>,
}

/// The settings of a tenant that the verdict on a read needs, without its directory.
struct CachedTenant {
    asked: Instant,
    settings: Tenant,
}

fn is_fresh(asked: &Instant) -> bool {
    asked.elapsed() < CACHED_FOR.std()
}

impl DispatchCache {
    /// Whether the fleet and `tenant` were found running.
    fn were_running(&self, tenant: &TenantId) -> (bool, bool) {
        let found = self.0.lock();
        let tenant = found.tenants.get(tenant).is_some_and(|tenant| is_fresh(&tenant.asked));
        (found.fleet.as_ref().is_some_and(is_fresh), tenant)
    }

    /// The settings of `tenant`, if they were read a moment ago.
    fn settings(&self, tenant: &TenantId) -> Option<Tenant> {
        let found = self.0.lock();
        found.tenants.get(tenant).filter(|found| is_fresh(&found.asked)).map(|found| found.settings.clone())
    }

    fn set_fleet_running(&self, asked: Instant) {
        self.0.lock().fleet = Some(asked);
    }

    fn set_tenant_running(&self, settings: Tenant, asked: Instant) {
        let mut found = self.0.lock();
        if found.tenants.len() >= TENANTS_MAX {
            found.tenants.retain(|_, tenant| is_fresh(&tenant.asked));
        }
        if found.tenants.len() >= TENANTS_MAX {
            found.tenants.clear();
        }
        found.tenants.insert(settings.tenant.clone(), CachedTenant { asked, settings });
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = Cached::default();
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

    /// Whether dispatch runs for `tenant`, by the cached state and an eventually consistent read of the rest.
    async fn is_dispatch_running(&self, tenant: &TenantId) -> Result<bool, EngineError> {
        let (fleet_runs, tenant_runs) = self.dispatch_cache.were_running(tenant);
        if fleet_runs && tenant_runs {
            return Ok(true);
        }
        let asked = Instant::now();
        // The item of the fleet is read by every worker: once for all of its tenants.
        let (fleet, settled) = if fleet_runs {
            (None, self.retry_busy(|store| store.eventual_tenant(tenant)).await?)
        } else {
            self.retry_busy(|store| store.eventual(tenant)).await?
        };
        if let Some(format) =
            fleet.as_ref().map(|fleet| fleet.format).filter(|format| *format > RECORD_FORMAT)
        {
            return Err(EngineError::Outdated { format });
        }
        let settings = policy_settings(tenant, settled.as_ref());
        let found = DispatchState::of(fleet, settled);
        if found.fleet.is_none() && !fleet_runs {
            self.dispatch_cache.set_fleet_running(asked);
        }
        if found.tenant.is_none() {
            self.dispatch_cache.set_tenant_running(settings, asked);
        }
        Ok(!found.is_stopped())
    }

    /// The policy and limits of `tenant`, as they were when the switch was last read. The verdict on a read uses them, so
    /// that it costs no request of its own.
    pub(crate) async fn recent_settings(&self, tenant: &TenantId) -> Result<Tenant, EngineError> {
        if let Some(settings) = self.dispatch_cache.settings(tenant) {
            return Ok(settings);
        }
        let settled = self.retry_busy(|store| store.tenant(tenant)).await?;
        Ok(policy_settings(tenant, settled.as_ref()))
    }

    /// Whether work may start for `run`, by the cached state.
    pub(crate) async fn may_start_work(&self, run: &RunRecord) -> Result<bool, EngineError> {
        let tenant = &run.key.tenant;
        if self.is_dispatch_running(tenant).await? {
            return Ok(true);
        }
        // Dispatch may have been started since, and a start announces each run only once: read consistently.
        Ok(self.dispatch(tenant).await?.forbids(run).is_none())
    }
}

/// The settings that a verdict depends on.
fn policy_settings(tenant: &TenantId, settled: Option<&Tenant>) -> Tenant {
    let none = Tenant::new(tenant.clone());
    match settled {
        Some(settled) => Tenant { policy: settled.policy, caps: settled.caps.clone(), ..none },
        None => none,
    }
}
