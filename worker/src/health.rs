//! Health: whether a running worker makes progress.
//!
//! A process that answers and does nothing is worse than a dead one, because it is not replaced. So a worker is
//! judged by its work. It is unhealthy if messages are visible, it has capacity, and it received none between two
//! checks. If the store fails or does not answer, a worker that has worked before is only degraded: the store is shared,
//! and replacing every worker would not help. A worker that never worked is unhealthy, so that a deployment of a wrong
//! configuration is rolled back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use domain::{QueueName, RunKey};
use engine::metrics;
use parking_lot::Mutex;

use crate::job_runner::JobProgress;

/// How many checks in a row must agree: a message may have arrived, or the store may have failed, just before one of
/// them.
const CHECKS: usize = 3;

/// How many different runs in a row must fail: one with a damaged record fails in every worker.
const FAILED_RUNS: usize = 3;

/// What a worker has done, and its health.
#[derive(Debug, Default)]
pub struct WorkerHealth {
    queues: [Traffic; 3],
    /// Work that moved out of its queue's limit.
    beside: Traffic,
    looks: Mutex<Vec<HealthCheck>>,
    nowhere: Mutex<Nowhere>,
    /// Whether the store has answered a check.
    answered: AtomicBool,
    /// Whether a job has made progress.
    progressed: AtomicBool,
}

/// Runs that failed since one succeeded.
#[derive(Debug, Default)]
struct Nowhere {
    runs: BTreeSet<RunKey>,
    /// Checks since the last failure. A failed message is redelivered within a few.
    quiet: usize,
}

#[derive(Debug, Default)]
struct Traffic {
    taken: AtomicU64,
    busy: AtomicUsize,
    failed: AtomicU64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthStatus {
    /// It makes progress, or there is nothing to do.
    Healthy,
    /// A service that all workers share fails, and why. Replacing the worker would not help.
    Degraded(String),
    /// It makes no progress, and why.
    Unhealthy(String),
}

/// One check of all queues.
pub(crate) type HealthCheck = [QueueCheck; 3];

/// One check of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueCheck {
    /// Whether messages are visible; `None` if the store did not answer.
    pub(crate) waiting: Option<bool>,
    /// Messages received so far.
    taken: u64,
    /// Receives that failed so far.
    failed: u64,
    /// Whether the queue's limit is reached.
    full: bool,
}

/// A message being processed; counts towards its queue's limit while it lives.
#[derive(Debug)]
pub(crate) struct InFlight<'h> {
    registration: &'h Traffic,
    beside: &'h Traffic,
    queue: QueueName,
}

impl InFlight<'_> {
    /// No longer counts towards its queue's limit.
    pub(crate) fn move_over(&mut self) {
        self.beside.busy.fetch_add(1, Ordering::Relaxed);
        self.registration.busy.fetch_sub(1, Ordering::Relaxed);
        self.registration = self.beside;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.registration.busy.fetch_sub(1, Ordering::Relaxed);
        metrics::message_finished(self.queue);
    }
}

impl WorkerHealth {
    /// A message of `queue` was received.
    pub(crate) fn take(&self, queue: QueueName) -> InFlight<'_> {
        let traffic = &self.queues[registration(queue)];
        traffic.taken.fetch_add(1, Ordering::Relaxed);
        traffic.busy.fetch_add(1, Ordering::Relaxed);
        metrics::message_started(queue);
        InFlight { registration: traffic, beside: &self.beside, queue }
    }

    /// A receive from `queue` failed.
    pub(crate) fn receive_failed(&self, queue: QueueName) {
        self.queues[registration(queue)].failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        let places = self.queues.iter().chain([&self.beside]);
        let busy = places.map(|traffic| traffic.busy.load(Ordering::Relaxed)).sum::<usize>();
        u32::try_from(busy).unwrap_or(u32::MAX)
    }

    /// The processing of a message about `run` ended.
    pub(crate) fn ended(&self, run: RunKey, went: JobProgress) {
        let mut nowhere = self.nowhere.lock();
        nowhere.quiet = 0;
        match went {
            JobProgress::Made => {
                self.progressed.store(true, Ordering::Relaxed);
                nowhere.runs.clear();
            }
            JobProgress::StoreFailed if nowhere.runs.len() < FAILED_RUNS => drop(nowhere.runs.insert(run)),
            JobProgress::StoreFailed => {}
        }
    }

    /// One check of `queue`, which has capacity for `room` more messages.
    pub(crate) fn see(&self, queue: QueueName, room: usize, waiting: Option<bool>) -> QueueCheck {
        let Traffic { taken, busy, failed } = &self.queues[registration(queue)];
        let full = busy.load(Ordering::Relaxed) >= room;
        let (taken, failed) = (taken.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
        QueueCheck { waiting, taken, failed, full }
    }

    /// Stores a check.
    pub(crate) fn remember(&self, look: HealthCheck) {
        if look.iter().any(|seen| seen.waiting.is_some()) {
            self.answered.store(true, Ordering::Relaxed);
        }
        let mut nowhere = self.nowhere.lock();
        nowhere.quiet += 1;
        // The runs that failed here were processed by other workers.
        if nowhere.quiet > CHECKS {
            nowhere.runs.clear();
        }
        drop(nowhere);
        let mut looks = self.looks.lock();
        looks.push(look);
        let old = looks.len().saturating_sub(CHECKS);
        looks.drain(..old);
    }

    pub fn status(&self) -> HealthStatus {
        let looks = self.looks.lock();
        let judged = QueueName::ALL.into_iter().map(|queue| {
            let seen: Vec<QueueCheck> = looks.iter().map(|look| look[registration(queue)]).collect();
            judge(queue, &seen, self.answered.load(Ordering::Relaxed))
        });
        judged
            .into_iter()
            .find(|condition| *condition != HealthStatus::Healthy)
            .unwrap_or_else(|| self.getting_on())
    }

    /// Whether received messages are processed.
    fn getting_on(&self) -> HealthStatus {
        let nowhere = self.nowhere.lock();
        if nowhere.runs.len() < FAILED_RUNS {
            return HealthStatus::Healthy;
        }
        let has_worked = self.progressed.load(Ordering::Relaxed);
        store_fails(has_worked, "messages are received, but the store fails every operation on them")
    }
}

/// The store is shared by all workers.
fn store_fails(has_worked: bool, why: &str) -> HealthStatus {
    if has_worked { HealthStatus::Degraded(why.to_owned()) } else { HealthStatus::Unhealthy(why.to_owned()) }
}

fn registration(queue: QueueName) -> usize {
    match queue {
        QueueName::Ingest => 0,
        QueueName::Decisions => 1,
        QueueName::Steps => 2,
    }
}

/// What a series of checks of one queue means.
fn judge(queue: QueueName, seen: &[QueueCheck], answered: bool) -> HealthStatus {
    if seen.len() < CHECKS {
        return HealthStatus::Healthy;
    }
    if seen.iter().all(|seen| seen.waiting.is_none()) {
        return store_fails(answered, "the store does not answer");
    }
    let idle = seen.iter().all(|now| now.waiting == Some(true) && !now.full && now.taken == seen[0].taken);
    if idle && seen.iter().any(|now| now.failed != seen[0].failed) {
        return store_fails(answered, &format!("messages of queue {queue} cannot be received"));
    }
    if idle {
        return HealthStatus::Unhealthy(format!(
            "messages are visible in queue {queue}, but none is received"
        ));
    }
    HealthStatus::Healthy
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 2;

    fn look(health: &WorkerHealth, waiting: Option<bool>) {
        health.remember(QueueName::ALL.map(|queue| health.see(queue, ROOM, waiting)));
    }

    fn unhealthy(health: &WorkerHealth) -> String {
        match health.status() {
            HealthStatus::Unhealthy(why) => why,
            other => panic!("it is {other:?}"),
        }
    }

    fn degraded(health: &WorkerHealth) -> String {
        match health.status() {
            HealthStatus::Degraded(why) => why,
            other => panic!("it is {other:?}"),
        }
    }

    #[test]
    fn a_worker_that_receives_nothing_is_unhealthy() {
        let health = WorkerHealth::default();
        for _ in 0..CHECKS {
            assert_eq!(health.status(), HealthStatus::Healthy);
            look(&health, Some(true));
        }
        assert!(unhealthy(&health).contains("ingest"));
        for queue in QueueName::ALL {
            drop(health.take(queue));
        }
        look(&health, Some(true));
        assert_eq!(health.status(), HealthStatus::Healthy);
    }

    #[test]
    fn a_worker_with_nothing_to_do_is_well() {
        let health = WorkerHealth::default();
        for _ in 0..=CHECKS {
            look(&health, Some(false));
        }
        assert_eq!(health.status(), HealthStatus::Healthy);
    }

    #[test]
    fn a_worker_without_room_is_busy_and_not_unwell() {
        let health = WorkerHealth::default();
        let hands: Vec<_> =
            QueueName::ALL.into_iter().flat_map(|queue| [health.take(queue), health.take(queue)]).collect();
        for _ in 0..CHECKS {
            look(&health, Some(true));
        }
        assert_eq!(health.status(), HealthStatus::Healthy);
        drop(hands);
        for _ in 0..CHECKS {
            look(&health, Some(true));
        }
        assert!(unhealthy(&health).contains("none is received"));
    }

    #[test]
    fn a_worker_whose_store_stops_answering_is_degraded() {
        let health = WorkerHealth::default();
        look(&health, Some(false));
        for _ in 0..CHECKS - 1 {
            look(&health, None);
        }
        assert_eq!(health.status(), HealthStatus::Healthy);
        look(&health, None);
        assert_eq!(degraded(&health), "the store does not answer", "it has answered before");
    }

    #[test]
    fn a_worker_that_never_reached_the_store_is_unhealthy() {
        let health = WorkerHealth::default();
        for _ in 0..CHECKS {
            look(&health, None);
        }
        assert_eq!(unhealthy(&health), "the store does not answer");
    }

    #[test]
    fn failing_receives_are_not_the_workers_fault() {
        let health = WorkerHealth::default();
        for _ in 0..CHECKS {
            for queue in QueueName::ALL {
                health.receive_failed(queue);
            }
            look(&health, Some(true));
        }
        assert!(degraded(&health).contains("cannot be received"));
    }

    #[test]
    fn a_store_outage_does_not_replace_a_worker() {
        let health = WorkerHealth::default();
        health.ended(run("before"), JobProgress::Made);
        for name in ["a", "b", "c"] {
            health.ended(run(name), JobProgress::StoreFailed);
        }
        assert!(degraded(&health).contains("the store fails every operation"));
    }

    fn run(name: &str) -> RunKey {
        RunKey { tenant: "acme".parse().unwrap(), run: name.parse().unwrap() }
    }

    #[test]
    fn three_failed_runs_make_a_worker_unhealthy() {
        let health = WorkerHealth::default();
        for name in ["a", "b", "a", "b"] {
            health.ended(run(name), JobProgress::StoreFailed);
        }
        assert_eq!(health.status(), HealthStatus::Healthy, "two runs may be damaged");
        health.ended(run("c"), JobProgress::StoreFailed);
        assert!(unhealthy(&health).contains("the store fails every operation"));
        health.ended(run("d"), JobProgress::Made);
        assert_eq!(health.status(), HealthStatus::Healthy);
    }

    #[test]
    fn a_worker_recovers_when_others_process_its_runs() {
        let health = WorkerHealth::default();
        for name in ["a", "b", "c"] {
            health.ended(run(name), JobProgress::StoreFailed);
        }
        for _ in 0..CHECKS {
            look(&health, Some(false));
            unhealthy(&health);
        }
        look(&health, Some(false));
        assert_eq!(health.status(), HealthStatus::Healthy);
    }
}
