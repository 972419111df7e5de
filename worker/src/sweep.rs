//! The sweep for overdue runs.
//!
//! One worker of the fleet sweeps. The others would find the same runs, and compete with it for them. The sweeper is
//! chosen from the worker registry, without a lease: it is the first worker by id that has a recent heartbeat. If two
//! workers believe that they are first, both sweep, which is safe. The others sweep now and then, in case the first one
//! cannot.

use std::time::Duration;

use domain::{Cause, Digest, Initiator, Timestamp, WorkerId, WorkerRecord, WorkerStatus};
use store::Store;
use tokio::time::sleep;

use crate::Worker;

/// Every worker sweeps this often: one time in ten.
const BACKUP_SWEEP_EVERY: u32 = 10;

impl<S: Store> Worker<S> {
    pub(super) async fn sweep_loop(&self) {
        let by = Initiator::new(Cause::System, self.me.as_str());
        sleep(first_sweep_after(&self.me, self.settings.sweep_every)).await;
        for number in (1..=BACKUP_SWEEP_EVERY).cycle() {
            let sweeps = number == BACKUP_SWEEP_EVERY || self.is_sweeper().await;
            if sweeps && let Err(error) = self.engine.operations().sweep(&by).await {
                tracing::warn!(event = "sweep_failed", %error, "sweep failed");
            }
            sleep(self.settings.sweep_every).await;
        }
    }

    /// Whether this worker is the sweeper of the fleet. A worker that has no record, or cannot read the registry, sweeps.
    async fn is_sweeper(&self) -> bool {
        if self.settings.heartbeat_every.is_none() {
            return true;
        }
        match self.engine.store().workers().await {
            Ok(workers) => sweeper(&workers, self.engine.now()).is_none_or(|first| *first >= self.me),
            Err(_) => true,
        }
    }
}

/// The first worker that works, by id.
fn sweeper(workers: &[WorkerRecord], now: Timestamp) -> Option<&WorkerId> {
    let works =
        |worker: &&WorkerRecord| matches!(worker.status(now), WorkerStatus::Idle | WorkerStatus::Executing);
    workers.iter().filter(works).map(|worker| &worker.worker).min()
}

/// Between half of the interval and all of it, so that workers that start together sweep at different times.
fn first_sweep_after(me: &WorkerId, every: Duration) -> Duration {
    let [share, ..] = *Digest::of_bytes(me.as_str().as_bytes()).as_bytes();
    every / 2 + every / 2 * u32::from(share) / 255
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn workers_that_start_together_sweep_at_different_times() {
        let every = Duration::from_mins(1);
        let delays =
            (0..64).map(|number| first_sweep_after(&format!("worker-{number}").parse().unwrap(), every));
        let delays: BTreeSet<Duration> = delays.collect();
        assert!(delays.len() > 48, "{delays:?}");
        assert!(delays.iter().all(|delay| (every / 2..=every).contains(delay)), "{delays:?}");
    }
}
