//! The slots of a queue: how many jobs of each tenant a worker runs at once.
//!
//! A queue has as many slots for any tenant as its limit says, and as many again that are reserved for tenants below
//! their share. So one tenant can use the whole limit, and another tenant still gets a slot while every job of the
//! first one lasts for minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::TenantId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A tenant with this part of the limit has its share: it gets no reserved slot, and others come first.
const SHARES: usize = 8;

/// How long all slots for any tenant must be in use before a reserved one is offered. Slots of quick jobs become free
/// within this time, so a worker that is merely busy sends no further requests.
pub(crate) const RESERVE_AFTER: Duration = Duration::from_secs(1);

pub(crate) struct Slots {
    limit: usize,
    state: Mutex<SlotState>,
    freed: Notify,
}

#[derive(Default)]
struct SlotState {
    in_use: usize,
    tenants: BTreeMap<TenantId, usize>,
    /// A tenant below its share ended a job, and may have another message.
    reserved_freed: bool,
}

/// Room for more jobs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) free: usize,
    /// Whether these slots are reserved for tenants below their share.
    pub(crate) reserved: bool,
    /// The tenants that have their share.
    pub(crate) served: BTreeSet<TenantId>,
}

/// A slot in use, until it is dropped.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    tenant: TenantId,
}

impl Slots {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default(), freed: Notify::new() })
    }

    fn share(&self) -> usize {
        (self.limit / SHARES).max(1)
    }

    /// A slot for a job of `tenant`; `None` if the tenant has its share and only reserved slots are free.
    pub(crate) fn take(self: &Arc<Self>, tenant: &TenantId) -> Option<Slot> {
        let mut state = self.state.lock();
        let held = state.tenants.get(tenant).copied().unwrap_or_default();
        let is_open = state.in_use < self.limit;
        let is_reserved = held < self.share() && state.in_use < self.limit * 2;
        if !is_open && !is_reserved {
            return None;
        }
        state.in_use += 1;
        state.tenants.insert(tenant.clone(), held + 1);
        Some(Slot { slots: Arc::clone(self), tenant: tenant.clone() })
    }

    /// Waits for a slot for any tenant, and offers reserved ones if none becomes free in time.
    pub(crate) async fn room(&self) -> Room {
        let offer_at = Instant::now() + RESERVE_AFTER;
        loop {
            if let Some(room) = self.room_now(Instant::now() >= offer_at) {
                return room;
            }
            if Instant::now() < offer_at {
                let _ = timeout_at(offer_at, self.freed.notified()).await;
            } else {
                self.freed.notified().await;
            }
        }
    }

    fn room_now(&self, offer_reserved: bool) -> Option<Room> {
        let mut state = self.state.lock();
        let reserved = state.in_use >= self.limit;
        let free = if reserved { self.limit * 2 } else { self.limit } - state.in_use;
        if free == 0 || (reserved && !offer_reserved && !state.reserved_freed) {
            return None;
        }
        state.reserved_freed = false;
        let share = self.share();
        let served = state.tenants.iter().filter(|(_, held)| **held >= share);
        Some(Room { free, reserved, served: served.map(|(tenant, _)| tenant.clone()).collect() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        state.in_use -= 1;
        let held = state.tenants.remove(&self.tenant).unwrap_or_default();
        state.reserved_freed |= held <= self.slots.share();
        if held > 1 {
            state.tenants.insert(self.tenant.clone(), held - 1);
        }
        drop(state);
        self.slots.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const LIMIT: usize = 16;

    fn tenant(number: usize) -> TenantId {
        format!("t{number}").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn one_tenant_uses_every_open_slot() {
        let slots = Slots::new(LIMIT);
        let held: Vec<_> = std::iter::from_fn(|| slots.take(&tenant(0))).collect();
        assert_eq!(held.len(), LIMIT);
        assert!(slots.take(&tenant(1)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn reserved_slots_are_offered_after_a_while() {
        let slots = Slots::new(LIMIT);
        let mut held: Vec<_> = std::iter::from_fn(|| slots.take(&tenant(0))).collect();
        let asked = Instant::now();
        let room = slots.room().await;
        assert_eq!(asked.elapsed(), RESERVE_AFTER);
        assert_eq!(room, Room { free: LIMIT, reserved: true, served: BTreeSet::from([tenant(0)]) });
        held.pop();
        assert!(!slots.room().await.reserved);
        assert_eq!(asked.elapsed(), RESERVE_AFTER, "an open slot is offered at once");
    }

    #[tokio::test(start_paused = true)]
    async fn without_slots_there_is_never_room() {
        let slots = Slots::new(0);
        assert!(timeout(Duration::from_hours(1), slots.room()).await.is_err());
        assert!(slots.take(&tenant(0)).is_none());
    }

    /// Tenants take and free slots in an arbitrary order.
    #[test]
    fn slots_are_never_idle_nor_all_taken_by_one() {
        for limit in 1..=LIMIT {
            let slots = Slots::new(limit);
            let (mut held, mut chance) = (Vec::<(usize, Slot)>::new(), 1_usize);
            for _ in 0..5_000 {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (number, act) = ((chance >> 33) % 5, (chance >> 40) % 3);
                if act == 0 && !held.is_empty() {
                    held.swap_remove((chance >> 45) % held.len());
                    continue;
                }
                let own = held.iter().filter(|(of, _)| *of == number).count();
                if let Some(slot) = slots.take(&tenant(number)) {
                    held.push((number, slot));
                } else {
                    assert!(held.len() >= limit, "an open slot was refused");
                    assert!(own >= slots.share() || held.len() == limit * 2);
                }
                let own = held.iter().filter(|(of, _)| *of == number).count();
                assert!(own <= limit && held.len() <= limit * 2);
            }
        }
    }
}
