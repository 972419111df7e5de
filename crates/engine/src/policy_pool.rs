//! Long thoughts, beside everything else.
//!
//! A policy may take a second for each question and for each of its tests, and whoever asks may have written it to.
//! What may take long is done on a thread of its own, a few at a time and of each tenant one, and is told when it has
//! had its time or when nobody waits for it any more.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Millis, TenantId};
use store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::Engine;
use crate::error::EngineError;

/// Thoughts of all tenants together. Each is a thread that shares the cores with the runs that go on meanwhile.
const AT_ONCE: usize = 4;

/// Thoughts of one tenant: whoever wrote a policy that takes its time keeps nobody else waiting.
const AT_ONCE_OF_ONE: usize = 1;

/// An honest policy needs a hundredth of this; a client waits a little longer.
const WITHIN: Millis = Millis::secs(20);

/// A thought that is told to end does so after the question or the test that it is at. One that cannot be told, because
/// a single step of it does not end, is left to itself and keeps its room.
const ENDS_WITHIN: Millis = Millis::secs(3);

/// Who waits this long for room is told to come again, instead of standing in a line without end.
const ROOM_WITHIN: Millis = Millis::secs(5);

/// Permit for thoughts.
pub(crate) struct PolicyPool {
    all: Arc<Semaphore>,
    /// Of those tenants that have something thought about.
    tenants: Mutex<BTreeMap<TenantId, Arc<Semaphore>>>,
}

impl Default for PolicyPool {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_ONCE)), tenants: Mutex::default() }
    }
}

/// Permit for one thought, until it is dropped.
struct Permit {
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl PolicyPool {
    /// Permit for a thought of `tenant`; none, if there is none in time. Whoever waits has room among the tenant's own
    /// first, so the line for the room of all has one of each tenant.
    async fn room(&self, tenant: &TenantId) -> Option<Permit> {
        let (own, all) = (self.of(tenant), Arc::clone(&self.all));
        let both = async {
            let of_tenant = own.acquire_owned().await.ok()?;
            let of_all = all.acquire_owned().await.ok()?;
            Some(Permit { _of_tenant: of_tenant, _of_all: of_all })
        };
        timeout(ROOM_WITHIN.std(), both).await.ok().flatten()
    }

    fn of(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever waits or thinks holds a permit.
        tenants.retain(|_, own| Arc::strong_count(own) > 1);
        let own = tenants.entry(tenant.clone()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE_OF_ONE)));
        Arc::clone(own)
    }
}

/// Says that the time is up as soon as it is dropped.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S: Store> Engine<S> {
    /// What `thought` of `tenant` comes to. It is asked to end early by what it is given.
    pub(crate) async fn policy_pool<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        thought: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        self.policy_pool.run(tenant, thought).await
    }
}

impl PolicyPool {
    /// The same, in this room.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        thought: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let busy = || EngineError::PolicyBusy { tenant: tenant.clone() };
        let room = self.room(tenant).await.ok_or_else(busy)?;
        let over = Arc::new(AtomicBool::new(false));
        let waiting = Waiting(Arc::clone(&over));
        let mut thinking = spawn_blocking(move || {
            let _room = room;
            thought(&|| over.load(Ordering::Relaxed))
        });
        let come_to = if let Ok(come_to) = timeout(WITHIN.std(), &mut thinking).await {
            come_to
        } else {
            drop(waiting);
            timeout(ENDS_WITHIN.std(), thinking).await.map_err(|_| busy())?
        };
        match come_to {
            Ok(come_to) => Ok(come_to),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The process is ending.
            Err(_) => Err(busy()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use connectors::Toolbox;
    use store::{SqliteOptions, SqliteStore, SystemClock};
    use tokio::time::{Instant, advance};

    use super::*;
    use crate::{Parts, Timing};

    fn engine() -> Arc<Engine<SqliteStore>> {
        Arc::new(Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        }))
    }

    fn tenant(name: &str) -> TenantId {
        name.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_thinks_long_keeps_nobody_else_waiting() {
        let policy_pool = PolicyPool::default();
        let long = policy_pool.room(&tenant("acme")).await.unwrap();
        let begun = Instant::now();
        let (acme, umbrella) = (tenant("acme"), tenant("umbrella"));
        let other = async { (policy_pool.room(&umbrella).await.is_some(), begun.elapsed()) };
        // However many more of them stand in line.
        let (one, two, three, four, other) = tokio::join!(
            policy_pool.room(&acme),
            policy_pool.room(&acme),
            policy_pool.room(&acme),
            policy_pool.room(&acme),
            other
        );
        assert!([one, two, three, four].iter().all(Option::is_none));
        assert_eq!(other, (true, Duration::ZERO), "there was room at once");
        drop(long);
        assert!(policy_pool.room(&tenant("acme")).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn all_together_have_so_much_room_and_no_more() {
        let policy_pool = PolicyPool::default();
        let mut rooms = Vec::new();
        for n in 0..AT_ONCE {
            rooms.push(policy_pool.room(&tenant(&format!("t{n}"))).await.unwrap());
        }
        let begun = Instant::now();
        assert!(policy_pool.room(&tenant("one-more")).await.is_none());
        assert_eq!(begun.elapsed(), ROOM_WITHIN.std(), "it is told, and does not stand in line for ever");
        rooms.pop();
        assert!(policy_pool.room(&tenant("one-more")).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_a_policy_that_does_not_end_is_told_so_and_has_no_room_for_another() {
        let engine = engine();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let asking = {
            let engine = Arc::clone(&engine);
            let thought = move |_: &dyn Fn() -> bool| ends.recv().is_ok();
            tokio::spawn(async move { engine.policy_pool(&tenant("acme"), thought).await })
        };
        while !asking.is_finished() {
            advance(Duration::from_secs(1)).await;
        }
        let told = asking.await.unwrap();
        assert!(matches!(told, Err(EngineError::PolicyBusy { .. })), "{told:?}");
        let room = |name| engine.policy_pool.of(&tenant(name)).available_permits();
        assert_eq!((room("acme"), room("umbrella")), (0, 1));
        drop(end);
    }

    #[tokio::test]
    async fn tenants_that_have_nothing_thought_about_are_forgotten() {
        let policy_pool = PolicyPool::default();
        for n in 0..100 {
            assert!(policy_pool.room(&tenant(&format!("t{n}"))).await.is_some());
        }
        assert_eq!(policy_pool.tenants.lock().unwrap().len(), 1);
    }
}
