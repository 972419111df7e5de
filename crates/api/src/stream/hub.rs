//! Hubs: one look at the store for any number of listeners.
//!
//! A hub is opened for whoever comes first and goes when nobody has listened for a while; only as long as it is there
//! does anything look at the store for its sake.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;
use tokio::time::{Duration, Instant};

use super::feed::Feed;

/// A feed, and how many listen to it.
pub(super) struct Hub<P> {
    pub(super) feed: Feed<P>,
    audience: Mutex<Audience>,
}

enum Audience {
    Listening(usize),
    NobodySince(Instant),
    /// The hub is no longer fed, and takes no listeners.
    Gone,
}

/// A listener's seat at a hub. Whoever drops it has left.
pub(super) struct Seat<P> {
    hub: Arc<Hub<P>>,
}

impl<P: Copy + Ord> Hub<P> {
    /// A hub with this feed, to which nobody listens yet.
    pub(super) fn new(feed: Feed<P>) -> Arc<Self> {
        Arc::new(Self { feed, audience: Mutex::new(Audience::NobodySince(Instant::now())) })
    }

    /// A seat, unless the hub is gone.
    fn sit(self: &Arc<Self>) -> Option<Seat<P>> {
        let mut audience = lock(&self.audience);
        *audience = match *audience {
            Audience::Listening(count) => Audience::Listening(count + 1),
            Audience::NobodySince(_) => Audience::Listening(1),
            Audience::Gone => return None,
        };
        Some(Seat { hub: Arc::clone(self) })
    }

    /// Whether the hub is gone: it is if nobody has listened for so long.
    pub(super) fn is_gone_after(&self, linger: Duration) -> bool {
        let mut audience = lock(&self.audience);
        if matches!(*audience, Audience::NobodySince(since) if since.elapsed() >= linger) {
            *audience = Audience::Gone;
        }
        matches!(*audience, Audience::Gone)
    }
}

impl<P> Seat<P> {
    pub(super) fn feed(&self) -> &Feed<P> {
        &self.hub.feed
    }
}

impl<P> Drop for Seat<P> {
    fn drop(&mut self) {
        let mut audience = lock(&self.hub.audience);
        *audience = match *audience {
            Audience::Listening(count) if count > 1 => Audience::Listening(count - 1),
            Audience::Listening(_) => Audience::NobodySince(Instant::now()),
            Audience::NobodySince(since) => Audience::NobodySince(since),
            Audience::Gone => Audience::Gone,
        };
    }
}

/// A hub, once whoever came first has opened it.
type Opening<P> = Arc<OnceCell<Arc<Hub<P>>>>;

/// The hubs of one kind, by what they are about.
pub(super) struct Hubs<K, P> {
    hubs: Mutex<HashMap<K, Opening<P>>>,
}

impl<K, P> Default for Hubs<K, P> {
    fn default() -> Self {
        Self { hubs: Mutex::default() }
    }
}

impl<K: Clone + Eq + Hash, P: Copy + Ord> Hubs<K, P> {
    /// A seat at the hub `of`; `open` makes it if there is none. Whoever comes meanwhile waits for that.
    pub(super) async fn seat<E, F>(&self, of: &K, open: impl Fn() -> F) -> Result<Seat<P>, E>
    where
        F: Future<Output = Result<Arc<Hub<P>>, E>>,
    {
        loop {
            let cell = Arc::clone(lock(&self.hubs).entry(of.clone()).or_default());
            let hub = cell.get_or_try_init(&open).await?;
            if let Some(seat) = hub.sit() {
                return Ok(seat);
            }
            // It went between the two lines above.
            self.forget(of, hub);
        }
    }

    /// Forgets a hub that is gone.
    pub(super) fn forget(&self, of: &K, gone: &Arc<Hub<P>>) {
        let mut hubs = lock(&self.hubs);
        let stands = hubs.get(of).and_then(|cell| cell.get());
        if stands.is_some_and(|hub| Arc::ptr_eq(hub, gone)) {
            hubs.remove(of);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seat(hubs: &Hubs<u8, u32>) -> Seat<u32> {
        let open = || async { Ok::<_, ()>(Hub::new(Feed::new(None, 1))) };
        hubs.seat(&1, open).await.unwrap()
    }

    #[tokio::test]
    async fn all_who_listen_to_the_same_share_a_hub_and_it_goes_after_the_last() {
        let hubs = Hubs::default();
        let (one, two) = (seat(&hubs).await, seat(&hubs).await);
        assert!(Arc::ptr_eq(&one.hub, &two.hub));
        let hub = Arc::clone(&one.hub);
        drop(one);
        assert!(!hub.is_gone_after(Duration::ZERO), "somebody still listens");
        drop(two);
        assert!(!hub.is_gone_after(Duration::from_hours(1)), "they may come back");
        assert!(hub.is_gone_after(Duration::ZERO));
    }

    #[tokio::test]
    async fn whoever_comes_when_a_hub_is_gone_gets_another() {
        let hubs = Hubs::default();
        let gone = Arc::clone(&seat(&hubs).await.hub);
        assert!(gone.is_gone_after(Duration::ZERO));
        let seat = seat(&hubs).await;
        assert!(!Arc::ptr_eq(&seat.hub, &gone));
        hubs.forget(&1, &gone);
        assert!(lock(&hubs.hubs).contains_key(&1), "what is forgotten is the hub that is gone");
    }
}
