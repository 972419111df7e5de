//! A pool of threads for policy evaluation.
//!
//! A policy may take a second for each evaluation and each test, on purpose or not. Evaluations run on blocking
//! threads: a few at a time, and one per tenant. A job is asked to stop when its time is up or when its caller is
//! gone.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{Millis, TenantId};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::error::EngineError;

/// Jobs of all tenants together. Each is a thread that shares the cores with running steps.
const JOBS_MAX: usize = 4;

/// Jobs of one tenant: a slow policy delays no other tenant.
const JOBS_PER_TENANT: usize = 1;

/// A typical policy needs a hundredth of this; a client waits slightly longer.
const JOB_TIMEOUT: Millis = Millis::secs(20);

/// A job that is asked to stop does so after the current evaluation or test. A job that does not stop is left alone
/// and keeps its permit.
const STOP_TIMEOUT: Millis = Millis::secs(3);

/// How long a caller waits for a permit before it gets an error.
const PERMIT_TIMEOUT: Millis = Millis::secs(5);

/// Limits concurrent policy evaluations.
pub(crate) struct PolicyPool {
    all: Arc<Semaphore>,
    /// Tenants with at least one job or waiting caller.
    tenants: Mutex<BTreeMap<TenantId, Arc<Semaphore>>>,
}

impl Default for PolicyPool {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(JOBS_MAX)), tenants: Mutex::default() }
    }
}

/// Allows one job, until it is dropped.
struct Permit {
    _tenant: OwnedSemaphorePermit,
    _shared: OwnedSemaphorePermit,
}

impl PolicyPool {
    /// A permit for a job of `tenant`, or `None` after [`PERMIT_TIMEOUT`]. A caller takes its tenant's permit first, so
    /// at most one caller per tenant waits for a shared one.
    async fn permit(&self, tenant: &TenantId) -> Option<Permit> {
        let (own, all) = (self.tenant_semaphore(tenant), Arc::clone(&self.all));
        let both = async {
            let tenant = own.acquire_owned().await.ok()?;
            let shared = all.acquire_owned().await.ok()?;
            Some(Permit { _tenant: tenant, _shared: shared })
        };
        timeout(PERMIT_TIMEOUT.std(), both).await.ok().flatten()
    }

    fn tenant_semaphore(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock();
        // Every job and every waiting caller holds a reference.
        tenants.retain(|_, own| Arc::strong_count(own) > 1);
        let own = tenants.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(JOBS_PER_TENANT)));
        Arc::clone(own)
    }
}

/// Asks the job to stop when dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl PolicyPool {
    /// Runs `job` of `tenant`. The job is passed a function that returns true when it should stop.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        job: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let busy = || EngineError::PolicyBusy { tenant: tenant.clone() };
        let permit = self.permit(tenant).await.ok_or_else(busy)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stop_on_drop = StopOnDrop(Arc::clone(&stop));
        let mut task = spawn_blocking(move || {
            let _permit = permit;
            job(&|| stop.load(Ordering::Relaxed))
        });
        let result = if let Ok(result) = timeout(JOB_TIMEOUT.std(), &mut task).await {
            result
        } else {
            drop(stop_on_drop);
            timeout(STOP_TIMEOUT.std(), task).await.map_err(|_| busy())?
        };
        match result {
            Ok(result) => Ok(result),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The process is shutting down.
            Err(_) => Err(busy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, advance};

    use super::*;

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn slow_policy_delays_no_other_tenant() {
        let policy_pool = PolicyPool::default();
        let long = policy_pool.permit(&tenant("acme")).await.unwrap();
        let started = Instant::now();
        let (acme, umbrella) = (tenant("acme"), tenant("umbrella"));
        let other = async { (policy_pool.permit(&umbrella).await.is_some(), started.elapsed()) };
        let (one, two, three, four, other) = tokio::join!(
            policy_pool.permit(&acme),
            policy_pool.permit(&acme),
            policy_pool.permit(&acme),
            policy_pool.permit(&acme),
            other
        );
        assert!([one, two, three, four].iter().all(Option::is_none));
        assert_eq!(other, (true, Duration::ZERO), "a permit was free at once");
        drop(long);
        assert!(policy_pool.permit(&tenant("acme")).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn total_permits_are_bounded() {
        let policy_pool = PolicyPool::default();
        let mut permits = Vec::new();
        for n in 0..JOBS_MAX {
            permits.push(policy_pool.permit(&tenant(&format!("t{n}"))).await.unwrap());
        }
        let started = Instant::now();
        assert!(policy_pool.permit(&tenant("one-more")).await.is_none());
        assert_eq!(started.elapsed(), PERMIT_TIMEOUT.std(), "waiting for a permit is bounded");
        permits.pop();
        assert!(policy_pool.permit(&tenant("one-more")).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn evaluation_that_does_not_stop_keeps_its_permit() {
        let pool = Arc::new(PolicyPool::default());
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let task = {
            let pool = Arc::clone(&pool);
            let job = move |_: &dyn Fn() -> bool| ends.recv().is_ok();
            tokio::spawn(async move { pool.run(&tenant("acme"), job).await })
        };
        while !task.is_finished() {
            advance(Duration::from_secs(1)).await;
        }
        let result = task.await.unwrap();
        assert!(matches!(result, Err(EngineError::PolicyBusy { .. })), "{result:?}");
        let permit = |name| pool.tenant_semaphore(&tenant(name)).available_permits();
        assert_eq!((permit("acme"), permit("umbrella")), (0, 1));
        drop(end);
    }

    #[tokio::test]
    async fn idle_tenants_are_forgotten() {
        let policy_pool = PolicyPool::default();
        for n in 0..100 {
            assert!(policy_pool.permit(&tenant(&format!("t{n}"))).await.is_some());
        }
        assert_eq!(policy_pool.tenants.lock().len(), 1);
    }
}
