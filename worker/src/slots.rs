//! The slots of a queue, and of long jobs: how many jobs of each tenant a worker runs at once.
//!
//! There are as many slots for any tenant as its limit says, and as many again that are reserved for tenants below
//! their share. So one tenant can use the whole limit, and another tenant still gets a slot while every job of the
//! first one lasts for minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::TenantId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A tenant's share is the limit divided by this number. A tenant that uses its share gets no reserved slot.
const SHARE_DIVISOR: usize = 8;

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

impl SlotState {
    fn has_free_slot(&self, tenant: &TenantId, limit: usize, share: usize) -> bool {
        let held = self.tenants.get(tenant).copied().unwrap_or_default();
        let is_open = self.in_use < limit;
        let is_reserved = held < share && self.in_use < limit * 2;
        is_open || is_reserved
    }
}

/// The slots that a worker may fill now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FreeSlots {
    pub(crate) count: usize,
    /// Whether these slots are reserved for tenants below their share.
    pub(crate) reserved: bool,
    /// The tenants that have their share.
    pub(crate) tenants_at_share: BTreeSet<TenantId>,
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
        (self.limit / SHARE_DIVISOR).max(1)
    }

    /// A slot for a job of `tenant`; `None` if the tenant has its share and only reserved slots are free.
    pub(crate) fn take(self: &Arc<Self>, tenant: &TenantId) -> Option<Slot> {
        let mut state = self.state.lock();
        if !state.has_free_slot(tenant, self.limit, self.share()) {
            return None;
        }
        state.in_use += 1;
        *state.tenants.entry(tenant.clone()).or_default() += 1;
        Some(Slot { slots: Arc::clone(self), tenant: tenant.clone() })
    }

    /// Whether [`Self::take`] has a slot for `tenant`.
    pub(crate) fn has_free_slot(&self, tenant: &TenantId) -> bool {
        self.state.lock().has_free_slot(tenant, self.limit, self.share())
    }

    /// Waits for a slot for a job of `tenant`.
    pub(crate) async fn wait_and_take(self: &Arc<Self>, tenant: &TenantId) -> Slot {
        loop {
            let mut freed = pin!(self.freed.notified());
            // From here on, a slot that is freed wakes this job.
            freed.as_mut().enable();
            if let Some(slot) = self.take(tenant) {
                return slot;
            }
            freed.await;
        }
    }

    /// Waits for a slot for any tenant, and offers reserved ones if none becomes free in time.
    pub(crate) async fn wait_for_free(&self) -> FreeSlots {
        let offer_at = Instant::now() + RESERVE_AFTER;
        loop {
            if let Some(slots) = self.free_now(Instant::now() >= offer_at) {
                return slots;
            }
            if Instant::now() < offer_at {
                let _ = timeout_at(offer_at, self.freed.notified()).await;
            } else {
                self.freed.notified().await;
            }
        }
    }

    fn free_now(&self, offer_reserved: bool) -> Option<FreeSlots> {
        let mut state = self.state.lock();
        let reserved = state.in_use >= self.limit;
        let free = if reserved { self.limit * 2 } else { self.limit } - state.in_use;
        if free == 0 || (reserved && !offer_reserved && !state.reserved_freed) {
            return None;
        }
        state.reserved_freed = false;
        let share = self.share();
        let at_share = state.tenants.iter().filter(|(_, held)| **held >= share);
        let tenants_at_share = at_share.map(|(tenant, _)| tenant.clone()).collect();
        Some(FreeSlots { count: free, reserved, tenants_at_share })
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
        // Jobs that wait for a slot all try again: which of them may take it depends on their tenants. The loop of a queue
        // may be between two waits, so one notification is kept for it.
        self.slots.freed.notify_waiters();
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
        let started = Instant::now();
        let free = slots.wait_for_free().await;
        assert_eq!(started.elapsed(), RESERVE_AFTER);
        assert_eq!(
            free,
            FreeSlots { count: LIMIT, reserved: true, tenants_at_share: BTreeSet::from([tenant(0)]) }
        );
        held.pop();
        assert!(!slots.wait_for_free().await.reserved);
        assert_eq!(started.elapsed(), RESERVE_AFTER, "an open slot is offered at once");
    }

    #[tokio::test(start_paused = true)]
    async fn limit_of_zero_offers_no_slot() {
        let slots = Slots::new(0);
        assert!(timeout(Duration::from_hours(1), slots.wait_for_free()).await.is_err());
        assert!(slots.take(&tenant(0)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn freed_slot_wakes_the_jobs_that_may_take_it() {
        let slots = Slots::new(2);
        let mut held = vec![slots.take(&tenant(0)).unwrap(), slots.take(&tenant(0)).unwrap()];
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let slots = Arc::clone(&slots);
                tokio::spawn(async move { drop(slots.wait_and_take(&tenant(0)).await) })
            })
            .collect();
        let other = timeout(Duration::from_secs(1), slots.wait_and_take(&tenant(1))).await;
        assert!(other.is_ok(), "a tenant below its share does not wait");
        assert!(waiting.iter().all(|job| !job.is_finished()));
        held.clear();
        for job in waiting {
            timeout(Duration::from_secs(1), job).await.unwrap().unwrap();
        }
    }

    /// Tenants take and free slots in an arbitrary order.
    #[test]
    fn open_slots_are_never_refused_nor_exceeded() {
        for limit in 1..=LIMIT {
            let slots = Slots::new(limit);
            let (mut held, mut random) = (Vec::<(usize, Slot)>::new(), 1_usize);
            for _ in 0..5_000 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (number, action) = ((random >> 33) % 5, (random >> 40) % 3);
                if action == 0 && !held.is_empty() {
                    held.swap_remove((random >> 45) % held.len());
                    continue;
                }
                let own = held.iter().filter(|(tenant, _)| *tenant == number).count();
                if let Some(slot) = slots.take(&tenant(number)) {
                    held.push((number, slot));
                } else {
                    assert!(held.len() >= limit, "an open slot was refused");
                    assert!(own >= slots.share() || held.len() == limit * 2);
                }
                let own = held.iter().filter(|(tenant, _)| *tenant == number).count();
                assert!(own <= limit && held.len() <= limit * 2);
            }
        }
    }
}
