//! Health: queue depths, dead-letter messages and overdue runs.

use domain::{QueueName, RunKey};
use store::{DeadLetter, Store};

use crate::error::EngineError;
use crate::tenant_handle::TenantHandle;

/// How many entries are read. Beyond that the number alone is the alarm.
const ENTRIES_MAX: u32 = 100;

/// The health of the fleet, as one tenant may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetHealth {
    /// The queues, shared by all tenants.
    pub queues: Vec<QueueHealth>,
    /// Dead-letter messages about the tenant's runs, oldest first.
    pub dead: TenantEntries<DeadLetter>,
    /// The tenant's overdue runs, and runs that overdue inbox entries may start, longest overdue first.
    pub overdue: TenantEntries<RunKey>,
}

/// One tenant's entries among those that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantEntries<T> {
    pub of_tenant: Vec<T>,
    /// Whether all entries were read.
    pub all: bool,
}

impl<T> TenantEntries<T> {
    fn select(mut found: Vec<T>, is_of_tenant: impl FnMut(&T) -> bool) -> Self {
        let all = found.len() < ENTRIES_MAX as usize;
        found.retain(is_of_tenant);
        Self { of_tenant: found, all }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueHealth {
    pub queue: QueueName,
    /// All messages, in flight or not.
    pub depth: u64,
    /// Messages that no worker has received; approximate on SQS.
    pub visible: u64,
}

impl<S: Store> TenantHandle<S> {
    /// The health of the fleet, as the tenant may see it.
    pub async fn health(&self) -> Result<FleetHealth, EngineError> {
        let mut queues = Vec::with_capacity(QueueName::ALL.len());
        for queue in QueueName::ALL {
            let depth = self.core.retry_busy(|store| store.depth(queue)).await?;
            let visible = self.core.retry_busy(|store| store.visible(queue)).await?;
            queues.push(QueueHealth { queue, depth, visible });
        }
        let dead = self.core.retry_busy(|store| store.dead_letters(ENTRIES_MAX)).await?;
        let dead =
            TenantEntries::select(dead, |letter| letter.run().is_some_and(|run| run.tenant == self.tenant));
        let now = self.now();
        let overdue = self.core.retry_busy(|store| store.due(now, ENTRIES_MAX)).await?;
        let overdue = overdue.iter().map(|due| due.run().clone()).collect();
        let overdue = TenantEntries::select(overdue, |run: &RunKey| run.tenant == self.tenant);
        Ok(FleetHealth { queues, dead, overdue })
    }
}
