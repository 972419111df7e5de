//! Hubs: one poller of the store for any number of listeners.
//!
//! A hub is opened for the first listener and closed some time after the last one has left. The store is polled only
//! while the hub is open.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::{Duration, Instant};

use super::feed::Feed;

/// A feed and its number of listeners.
pub(super) struct Hub<P> {
    pub(super) feed: Feed<P>,
    state: Mutex<HubState>,
}

enum HubState {
    Listening(usize),
    EmptySince(Instant),
    /// The hub is no longer fed and accepts no listeners.
    Closed,
}

/// The subscription of a listener to a hub, until it is dropped.
pub(super) struct Subscription<P> {
    hub: Arc<Hub<P>>,
}

impl<P: Copy + Ord> Hub<P> {
    pub(super) fn new(feed: Feed<P>) -> Arc<Self> {
        Arc::new(Self { feed, state: Mutex::new(HubState::EmptySince(Instant::now())) })
    }

    /// None if the hub is closed.
    fn subscribe(self: &Arc<Self>) -> Option<Subscription<P>> {
        let mut state = self.state.lock();
        *state = match *state {
            HubState::Listening(count) => HubState::Listening(count + 1),
            HubState::EmptySince(_) => HubState::Listening(1),
            HubState::Closed => return None,
        };
        Some(Subscription { hub: Arc::clone(self) })
    }

    /// Closes the hub if it had no listeners for `linger`. Returns whether it is closed.
    pub(super) fn close_if_idle(&self, linger: Duration) -> bool {
        let mut state = self.state.lock();
        if matches!(*state, HubState::EmptySince(since) if since.elapsed() >= linger) {
            *state = HubState::Closed;
        }
        matches!(*state, HubState::Closed)
    }
}

impl<P> Subscription<P> {
    pub(super) fn feed(&self) -> &Feed<P> {
        &self.hub.feed
    }
}

impl<P> Drop for Subscription<P> {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        *state = match *state {
            HubState::Listening(count) if count > 1 => HubState::Listening(count - 1),
            HubState::Listening(_) => HubState::EmptySince(Instant::now()),
            HubState::EmptySince(since) => HubState::EmptySince(since),
            HubState::Closed => HubState::Closed,
        };
    }
}

/// A hub that the first listener opens.
type HubCell<P> = Arc<OnceCell<Arc<Hub<P>>>>;

/// The hubs of one kind, by key.
pub(super) struct Hubs<K, P> {
    hubs: Mutex<HashMap<K, HubCell<P>>>,
}

impl<K, P> Default for Hubs<K, P> {
    fn default() -> Self {
        Self { hubs: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, P: Copy + Ord> Hubs<K, P> {
    /// Subscribes to the hub of `key`. `open` creates it if there is none; other listeners wait for that.
    pub(super) async fn subscribe<E, F>(&self, key: &K, open: impl Fn() -> F) -> Result<Subscription<P>, E>
    where
        F: Future<Output = Result<Arc<Hub<P>>, E>>,
    {
        loop {
            let cell = Arc::clone(self.hubs.lock().entry(key.clone()).or_default());
            let hub = cell.get_or_try_init(&open).await?;
            if let Some(subscription) = hub.subscribe() {
                return Ok(subscription);
            }
            // It was closed between the two lines above.
            self.remove_closed(key, hub);
        }
    }

    /// Removes a closed hub.
    pub(super) fn remove_closed(&self, key: &K, closed: &Arc<Hub<P>>) {
        let mut hubs = self.hubs.lock();
        let current = hubs.get(key).and_then(|cell| cell.get());
        if current.is_some_and(|hub| Arc::ptr_eq(hub, closed)) {
            hubs.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn subscribe(hubs: &Hubs<u8, u32>) -> Subscription<u32> {
        let open = || async { Ok::<_, ()>(Hub::new(Feed::new(None, 1))) };
        hubs.subscribe(&1, open).await.unwrap()
    }

    #[tokio::test]
    async fn listeners_share_a_hub_until_the_last_leaves() {
        let hubs = Hubs::default();
        let (one, two) = (subscribe(&hubs).await, subscribe(&hubs).await);
        assert!(Arc::ptr_eq(&one.hub, &two.hub));
        let hub = Arc::clone(&one.hub);
        drop(one);
        assert!(!hub.close_if_idle(Duration::ZERO), "one listener is left");
        drop(two);
        assert!(!hub.close_if_idle(Duration::from_hours(1)), "listeners may reconnect");
        assert!(hub.close_if_idle(Duration::ZERO));
    }

    #[tokio::test]
    async fn closed_hub_is_replaced() {
        let hubs = Hubs::default();
        let closed = Arc::clone(&subscribe(&hubs).await.hub);
        assert!(closed.close_if_idle(Duration::ZERO));
        let subscription = subscribe(&hubs).await;
        assert!(!Arc::ptr_eq(&subscription.hub, &closed));
        hubs.remove_closed(&1, &closed);
        assert!(hubs.hubs.lock().contains_key(&1), "only the closed hub is removed");
    }
}
