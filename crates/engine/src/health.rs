//! Health: whether messages pile up, and what was given up.

use domain::{QueueName, RunKey, TenantId};
use store::{DeadLetter, Store};

use crate::Engine;
use crate::error::EngineError;

/// As many as a person looks at; beyond that the number alone alarms.
const LOOKED_AT_MAX: u32 = 100;

/// How the fleet is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The queues. They are everybody's.
    pub queues: Vec<QueueHealth>,
    /// Messages about the tenant's runs that were given up, oldest first.
    pub dead: Found<DeadLetter>,
    /// The tenant's runs that somebody should have looked at by now, longest overdue first.
    pub overdue: Found<RunKey>,
}

/// What is one tenant's, among as many of all as a person looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    /// The tenant's.
    pub of_tenant: Vec<T>,
    /// Whether there are no others that were not looked at.
    pub all: bool,
}

impl<T> Found<T> {
    fn among(mut found: Vec<T>, is_theirs: impl FnMut(&T) -> bool) -> Self {
        let all = found.len() < LOOKED_AT_MAX as usize;
        found.retain(is_theirs);
        Self { of_tenant: found, all }
    }
}

/// How a queue is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueHealth {
    /// Which.
    pub queue: QueueName,
    /// How many messages there are, in somebody's hands or not.
    pub depth: u64,
    /// How many nobody has taken; about, where a queue cannot tell.
    pub waiting: u64,
}

impl<S: Store> Engine<S> {
    /// How the fleet is doing, as far as it is `tenant`'s business.
    pub(crate) async fn health(&self, tenant: &TenantId) -> Result<Health, EngineError> {
        let mut queues = Vec::with_capacity(QueueName::ALL.len());
        for queue in QueueName::ALL {
            let depth = self.retry_busy(|| self.store.depth(queue)).await?;
            let waiting = self.retry_busy(|| self.store.waiting(queue)).await?;
            queues.push(QueueHealth { queue, depth, waiting });
        }
        let dead = self.retry_busy(|| self.store.dead_letters(LOOKED_AT_MAX)).await?;
        let dead = Found::among(dead, |letter| letter.run.tenant == *tenant);
        let now = self.now();
        let overdue = self.retry_busy(|| self.store.due(now, LOOKED_AT_MAX)).await?;
        let overdue = Found::among(overdue, |run| run.tenant == *tenant);
        Ok(Health { queues, dead, overdue })
    }
}
