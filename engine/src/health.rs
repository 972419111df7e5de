//! Health: whether messages pile up, and what was given up.

use domain::{Lane, RunKey, TenantId};
use store::{DeadLetter, Store};

use crate::Engine;
use crate::error::EngineError;

/// As many as a person looks at; beyond that the number alone alarms.
const LOOKED_AT_MAX: u32 = 100;

/// How the fleet is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The lanes. They are everybody's.
    pub lanes: Vec<LaneHealth>,
    /// Messages about the tenant's runs that were given up, oldest first, among the first hundred of all.
    pub dead: Vec<DeadLetter>,
    /// The tenant's runs that somebody should have looked at by now, longest overdue first, among the first hundred
    /// of all.
    pub overdue: Vec<RunKey>,
}

/// How a lane is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneHealth {
    /// Which.
    pub lane: Lane,
    /// How many messages there are, in somebody's hands or not.
    pub depth: u64,
    /// How many nobody has taken; about, where a queue cannot tell.
    pub waiting: u64,
}

impl<S: Store> Engine<S> {
    /// How the fleet is doing, as far as it is `tenant`'s business.
    pub(crate) async fn health(&self, tenant: &TenantId) -> Result<Health, EngineError> {
        let mut lanes = Vec::with_capacity(Lane::ALL.len());
        for lane in Lane::ALL {
            let depth = self.patiently(|| self.store.depth(lane)).await?;
            let waiting = self.patiently(|| self.store.waiting(lane)).await?;
            lanes.push(LaneHealth { lane, depth, waiting });
        }
        let mut dead = self.patiently(|| self.store.dead_letters(LOOKED_AT_MAX)).await?;
        dead.retain(|letter| letter.run.tenant == *tenant);
        let now = self.now();
        let mut overdue = self.patiently(|| self.store.due(now, LOOKED_AT_MAX)).await?;
        overdue.retain(|run| run.tenant == *tenant);
        Ok(Health { lanes, dead, overdue })
    }
}
