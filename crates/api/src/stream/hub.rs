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
    audience: Mutex<Audience>,
}

enum Audience {
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
        Arc::new(Self { feed, audience: Mutex::new(Audience::EmptySince(Instant::now())) })
    }

    /// None if the hub is closed.
    fn subscribe(self: &Arc<Self>) -> Option<Subscription<P>> {
        let mut audience = self.audience.lock();
        *audience = match *audience {
            Audience::Listening(count) => Audience::Listening(count + 1),
            Audience::EmptySince(_) => Audience::Listening(1),
            Audience::Closed => return None,
        };
        Some(Subscription { hub: Arc::clone(self) })
    }

    /// Closes the hub if it had no listeners for `linger`. Returns whether it is closed.
    pub(super) fn closes_after(&self, linger: Duration) -> bool {
        let mut audience = self.audience.lock();
        if matches!(*audience, Audience::EmptySince(since) if since.elapsed() >= linger) {
            *audience = Audience::Closed;
        }
        matches!(*audience, Audience::Closed)
    }
}

impl<P> Subscription<P> {
    pub(super) fn feed(&self) -> &Feed<P> {
        &self.hub.feed
    }
}

impl<P> Drop for Subscription<P> {
    fn drop(&mut self) {
        let mut audience = self.hub.audience.lock();
        *audience = match *audience {
            Audience::Listening(count) if count > 1 => Audience::Listening(count - 1),
            Audience::Listening(_) => Audience::EmptySince(Instant::now()),
            Audience::EmptySince(since) => Audience::EmptySince(since),
            Audience::Closed => Audience::Closed,
        };
    }
}

/// A hub that the first listener opens.
type Opening<P> = Arc<OnceCell<Arc<Hub<P>>>>;

/// The hubs of one kind, by key.
pub(super) struct Hubs<K, P> {
    hubs: Mutex<HashMap<K, Opening<P>>>,
}

impl<K, P> Default for Hubs<K, P> {
    fn default() -> Self {
        Self { hubs: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, P: Copy + Ord> Hubs<K, P> {
    /// Subscribes to the hub of `key`. `open` creates it if there is none; other listeners wait for that.
    pub(super) async fn subscribe<E, F>(&self, of: &K, open: impl Fn() -> F) -> Result<Subscription<P>, E>
    where
        F: Future<Output = Result<Arc<Hub<P>>, E>>,
    {
        loop {
            let cell = Arc::clone(self.hubs.lock().entry(of.clone()).or_default());
            let hub = cell.get_or_try_init(&open).await?;
            if let Some(subscription) = hub.subscribe() {
                return Ok(subscription);
            }
            // It was closed between the two lines above.
            self.forget(of, hub);
        }
    }

    /// Removes a closed hub.
    pub(super) fn forget(&self, of: &K, gone: &Arc<Hub<P>>) {
        let mut hubs = self.hubs.lock();
        let current = hubs.get(of).and_then(|cell| cell.get());
        if current.is_some_and(|hub| Arc::ptr_eq(hub, gone)) {
            hubs.remove(of);
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
        assert!(!hub.closes_after(Duration::ZERO), "one listener is left");
        drop(two);
        assert!(!hub.closes_after(Duration::from_hours(1)), "listeners may reconnect");
        assert!(hub.closes_after(Duration::ZERO));
    }

    #[tokio::test]
    async fn closed_hub_is_replaced() {
        let hubs = Hubs::default();
        let gone = Arc::clone(&subscribe(&hubs).await.hub);
        assert!(gone.closes_after(Duration::ZERO));
        let subscription = subscribe(&hubs).await;
        assert!(!Arc::ptr_eq(&subscription.hub, &gone));
        hubs.forget(&1, &gone);
        assert!(hubs.hubs.lock().contains_key(&1), "only the closed hub is removed");
    }
}
