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
use tokio::time::{Instant, timeout};

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
    fn of(fleet: Option<Fleet>, tenant: Option<Tenant>) -> Self {
        Self {
            fleet: fleet.and_then(|fleet| fleet.stopped),
            tenant: tenant.and_then(|tenant| tenant.stopped),
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.fleet.is_some() || self.tenant.is_some()
    }

    /// The stop that applies to `run`, and whether it is the fleet's; `None` if work may start.
    pub fn stop_for(&self, run: &RunRecord) -> Option<(bool, &DispatchStop)> {
        let fleet = self.fleet.iter().map(|stopped| (true, stopped));
        let tenant = self.tenant.iter().map(|stopped| (false, stopped));
        fleet.chain(tenant).find(|(_, stopped)| !stopped.allows(run))
    }
}

/// When dispatch was found running: for the fleet, which all tenants share, and for each tenant. A stop is never cached:
/// with a stale stop, workers would drop the messages that `dispatch start` sends.
#[derive(Default)]
pub(crate) struct DispatchCache {
    cached: Mutex<Cached>,
    /// Held while the fleet's switch is read, so that the jobs of a process do not all read it at the same time.
    fleet_read: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Cached {
    fleet: Option<Instant>,
    tenants: BTreeMap<TenantId, CachedTenant>,
}

/// The settings of a tenant that the verdict on a read needs, without its directory.
struct CachedTenant {
    read_at: Instant,
    settings: Tenant,
}

fn is_fresh(read_at: &Instant) -> bool {
    read_at.elapsed() < CACHED_FOR.std()
}

impl DispatchCache {
    /// Whether the fleet and `tenant` were found running.
    fn cached_as_running(&self, tenant: &TenantId) -> (bool, bool) {
        let cache = self.cached.lock();
        let tenant = cache.tenants.get(tenant).is_some_and(|tenant| is_fresh(&tenant.read_at));
        (cache.fleet.as_ref().is_some_and(is_fresh), tenant)
    }

    /// The settings of `tenant`, if they were read a moment ago.
    fn settings(&self, tenant: &TenantId) -> Option<Tenant> {
        let cache = self.cached.lock();
        cache
            .tenants
            .get(tenant)
            .filter(|cached| is_fresh(&cached.read_at))
            .map(|cached| cached.settings.clone())
    }

    fn set_fleet_running(&self, read_at: Instant) {
        self.cached.lock().fleet = Some(read_at);
    }

    fn set_tenant_running(&self, settings: Tenant, read_at: Instant) {
        let mut cache = self.cached.lock();
        if cache.tenants.len() >= TENANTS_MAX {
            cache.tenants.retain(|_, tenant| is_fresh(&tenant.read_at));
        }
        if cache.tenants.len() >= TENANTS_MAX {
            cache.tenants.clear();
        }
        cache.tenants.insert(settings.tenant.clone(), CachedTenant { read_at, settings });
    }

    pub(crate) fn clear(&self) {
        *self.cached.lock() = Cached::default();
    }
}

impl<S: Store> Core<S> {
    pub(crate) async fn dispatch(&self, tenant: &TenantId) -> Result<DispatchState, EngineError> {
        let (fleet, stored) = tokio::try_join!(
            biased;
            self.retry_busy(S::fleet),
            self.retry_busy(|store| store.tenant(tenant)),
        )?;
        Ok(DispatchState::of(fleet, stored))
    }

    /// Whether dispatch runs for `tenant`, by the cached state and an eventually consistent read of the rest.
    async fn is_dispatch_running(&self, tenant: &TenantId) -> Result<bool, EngineError> {
        let (mut fleet_runs, mut tenant_runs) = self.dispatch_cache.cached_as_running(tenant);
        let mut fleet_read = None;
        if !fleet_runs {
            // If the store hangs, each job asks by itself and gets an error of its own.
            fleet_read = timeout(CACHED_FOR.std(), self.dispatch_cache.fleet_read.lock()).await.ok();
            (fleet_runs, tenant_runs) = self.dispatch_cache.cached_as_running(tenant);
        }
        if fleet_runs && tenant_runs {
            return Ok(true);
        }
        if fleet_runs {
            fleet_read = None;
        }
        let read_at = Instant::now();
        // The item of the fleet is read by every worker: once for all of its tenants.
        let (fleet, stored) = if fleet_runs {
            (None, self.retry_busy(|store| store.tenant_eventual(tenant)).await?)
        } else {
            self.retry_busy(|store| store.settings_eventual(tenant)).await?
        };
        if let Some(format) =
            fleet.as_ref().map(|fleet| fleet.format).filter(|format| *format > RECORD_FORMAT)
        {
            return Err(EngineError::UnsupportedRecordFormat { format });
        }
        let settings = policy_settings(tenant, stored.as_ref());
        let state = DispatchState::of(fleet, stored);
        if state.fleet.is_none() && !fleet_runs {
            self.dispatch_cache.set_fleet_running(read_at);
        }
        drop(fleet_read);
        if state.tenant.is_none() {
            self.dispatch_cache.set_tenant_running(settings, read_at);
        }
        Ok(!state.is_stopped())
    }

    /// The policy, limits and connections of `tenant`, as they were when the switch was last read. The verdict on a read uses them, so
    /// that it costs no request of its own.
    pub(crate) async fn recent_settings(&self, tenant: &TenantId) -> Result<Tenant, EngineError> {
        if let Some(settings) = self.dispatch_cache.settings(tenant) {
            return Ok(settings);
        }
        let stored = self.retry_busy(|store| store.tenant(tenant)).await?;
        Ok(policy_settings(tenant, stored.as_ref()))
    }

    /// Whether work may start for `run`, by the cached state.
    pub(crate) async fn may_start_work(&self, run: &RunRecord) -> Result<bool, EngineError> {
        let tenant = &run.key.tenant;
        if self.is_dispatch_running(tenant).await? {
            return Ok(true);
        }
        // Dispatch may have been started since, and a start enqueues each run only once: read consistently.
        Ok(self.dispatch(tenant).await?.stop_for(run).is_none())
    }
}

/// The settings that a verdict and the connection of a step depend on.
fn policy_settings(tenant: &TenantId, stored: Option<&Tenant>) -> Tenant {
    let defaults = Tenant::new(tenant.clone());
    match stored {
        Some(stored) => {
            let (caps, connections) = (stored.caps.clone(), stored.connections.clone());
            Tenant { policy: stored.policy, caps, connections, redact: stored.redact.clone(), ..defaults }
        }
        None => defaults,
    }
}
