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
    queues: [QueueCounters; 3],
    /// Long jobs, which no longer count towards their queue's limit.
    long_jobs: QueueCounters,
    checks: Mutex<Vec<HealthCheck>>,
    failed_runs: Mutex<FailedRuns>,
    /// Whether the store has answered a check.
    answered: AtomicBool,
    /// Whether a job has made progress.
    progressed: AtomicBool,
}

/// Runs that failed since one succeeded.
#[derive(Debug, Default)]
struct FailedRuns {
    runs: BTreeSet<RunKey>,
    /// Checks since the last failure. A failed message is redelivered within a few.
    checks_since_failure: usize,
}

#[derive(Debug, Default)]
struct QueueCounters {
    received: AtomicU64,
    in_flight: AtomicUsize,
    failed_receives: AtomicU64,
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
    visible: Option<bool>,
    /// Messages received so far.
    received: u64,
    /// Receives that failed so far.
    failed_receives: u64,
    /// Whether the queue's limit is reached.
    full: bool,
}

/// A message being processed; counts towards its queue's limit while it lives.
#[derive(Debug)]
pub(crate) struct InFlight<'h> {
    counters: &'h QueueCounters,
    long_jobs: &'h QueueCounters,
    queue: QueueName,
}

impl InFlight<'_> {
    /// No longer counts towards its queue's limit.
    pub(crate) fn move_to_long_jobs(&mut self) {
        self.long_jobs.in_flight.fetch_add(1, Ordering::Relaxed);
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.counters = self.long_jobs;
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        metrics::message_finished(self.queue);
    }
}

impl WorkerHealth {
    /// Counts a received message of `queue` as in flight until the result is dropped.
    pub(crate) fn message_received(&self, queue: QueueName) -> InFlight<'_> {
        let counters = &self.queues[queue_index(queue)];
        counters.received.fetch_add(1, Ordering::Relaxed);
        counters.in_flight.fetch_add(1, Ordering::Relaxed);
        metrics::message_started(queue);
        InFlight { counters, long_jobs: &self.long_jobs, queue }
    }

    /// A receive from `queue` failed.
    pub(crate) fn receive_failed(&self, queue: QueueName) {
        self.queues[queue_index(queue)].failed_receives.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn in_flight(&self) -> u32 {
        let counters = self.queues.iter().chain([&self.long_jobs]);
        let total = counters.map(|counters| counters.in_flight.load(Ordering::Relaxed)).sum::<usize>();
        u32::try_from(total).unwrap_or(u32::MAX)
    }

    /// A job of `run` ended.
    pub(crate) fn job_ended(&self, run: RunKey, progress: JobProgress) {
        let mut failed = self.failed_runs.lock();
        failed.checks_since_failure = 0;
        match progress {
            JobProgress::Processed => {
                self.progressed.store(true, Ordering::Relaxed);
                failed.runs.clear();
            }
            JobProgress::StoreFailed if failed.runs.len() < FAILED_RUNS => drop(failed.runs.insert(run)),
            JobProgress::StoreFailed => {}
        }
    }

    /// One check of `queue`, whose limit is `slots`.
    pub(crate) fn check_queue(&self, queue: QueueName, slots: usize, visible: Option<bool>) -> QueueCheck {
        let QueueCounters { received, in_flight, failed_receives } = &self.queues[queue_index(queue)];
        QueueCheck {
            visible,
            received: received.load(Ordering::Relaxed),
            failed_receives: failed_receives.load(Ordering::Relaxed),
            full: in_flight.load(Ordering::Relaxed) >= slots,
        }
    }

    /// Stores a check.
    pub(crate) fn record_check(&self, check: HealthCheck) {
        if check.iter().any(|queue| queue.visible.is_some()) {
            self.answered.store(true, Ordering::Relaxed);
        }
        let mut failed = self.failed_runs.lock();
        failed.checks_since_failure += 1;
        // Other workers have processed the runs that failed here.
        if failed.checks_since_failure > CHECKS {
            failed.runs.clear();
        }
        drop(failed);
        let mut checks = self.checks.lock();
        checks.push(check);
        let old = checks.len().saturating_sub(CHECKS);
        checks.drain(..old);
    }

    pub fn status(&self) -> HealthStatus {
        let checks = self.checks.lock();
        let mut statuses = QueueName::ALL.into_iter().map(|queue| {
            let checks: Vec<QueueCheck> = checks.iter().map(|check| check[queue_index(queue)]).collect();
            queue_status(queue, &checks, self.answered.load(Ordering::Relaxed))
        });
        statuses.find(|status| *status != HealthStatus::Healthy).unwrap_or_else(|| self.job_status())
    }

    /// Whether jobs make progress.
    fn job_status(&self) -> HealthStatus {
        let failed = self.failed_runs.lock();
        if failed.runs.len() < FAILED_RUNS {
            return HealthStatus::Healthy;
        }
        let has_worked = self.progressed.load(Ordering::Relaxed);
        store_failure(has_worked, "messages are received, but the store fails every operation on them")
    }
}

/// The store is shared by all workers.
fn store_failure(has_worked: bool, why: &str) -> HealthStatus {
    if has_worked { HealthStatus::Degraded(why.to_owned()) } else { HealthStatus::Unhealthy(why.to_owned()) }
}

fn queue_index(queue: QueueName) -> usize {
    match queue {
        QueueName::Ingest => 0,
        QueueName::Decisions => 1,
        QueueName::Steps => 2,
    }
}

/// What a series of checks of one queue means.
fn queue_status(queue: QueueName, checks: &[QueueCheck], answered: bool) -> HealthStatus {
    if checks.len() < CHECKS {
        return HealthStatus::Healthy;
    }
    if checks.iter().all(|check| check.visible.is_none()) {
        return store_failure(answered, "the store does not respond");
    }
    let stalled = checks
        .iter()
        .all(|check| check.visible == Some(true) && !check.full && check.received == checks[0].received);
    if stalled && checks.iter().any(|check| check.failed_receives != checks[0].failed_receives) {
        return store_failure(answered, &format!("messages of queue {queue} cannot be received"));
    }
    if stalled {
        return HealthStatus::Unhealthy(format!(
            "messages are visible in queue {queue}, but none is received"
        ));
    }
    HealthStatus::Healthy
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 2;

    fn check(health: &WorkerHealth, visible: Option<bool>) {
        health.record_check(QueueName::ALL.map(|queue| health.check_queue(queue, SLOTS, visible)));
    }

    fn unhealthy(health: &WorkerHealth) -> String {
        match health.status() {
            HealthStatus::Unhealthy(why) => why,
            other => panic!("{other:?}"),
        }
    }

    fn degraded(health: &WorkerHealth) -> String {
        match health.status() {
            HealthStatus::Degraded(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn worker_that_receives_nothing_is_unhealthy() {
        let health = WorkerHealth::default();
        for _ in 0..CHECKS {
            assert_eq!(health.status(), HealthStatus::Healthy);
            check(&health, Some(true));
        }
        assert!(unhealthy(&health).contains("ingest"));
        for queue in QueueName::ALL {
            drop(health.message_received(queue));
        }
        check(&health, Some(true));
        assert_eq!(health.status(), HealthStatus::Healthy);
    }

    #[test]
    fn idle_worker_is_healthy() {
        let health = WorkerHealth::default();
        for _ in 0..=CHECKS {
            check(&health, Some(false));
        }
        assert_eq!(health.status(), HealthStatus::Healthy);
    }

    #[test]
    fn worker_at_its_limit_is_healthy() {
        let health = WorkerHealth::default();
        let in_flight: Vec<_> = QueueName::ALL
            .into_iter()
            .flat_map(|queue| [queue; SLOTS])
            .map(|queue| health.message_received(queue))
            .collect();
        for _ in 0..CHECKS {
            check(&health, Some(true));
        }
        assert_eq!(health.status(), HealthStatus::Healthy);
        drop(in_flight);
        for _ in 0..CHECKS {
            check(&health, Some(true));
        }
        assert!(unhealthy(&health).contains("none is received"));
    }

    #[test]
    fn worker_is_degraded_when_the_store_stops_answering() {
        let health = WorkerHealth::default();
        check(&health, Some(false));
        for _ in 0..CHECKS - 1 {
            check(&health, None);
        }
        assert_eq!(health.status(), HealthStatus::Healthy);
        check(&health, None);
        assert_eq!(degraded(&health), "the store does not respond", "it has answered before");
    }

    #[test]
    fn worker_that_never_reached_the_store_is_unhealthy() {
        let health = WorkerHealth::default();
        for _ in 0..CHECKS {
            check(&health, None);
        }
        assert_eq!(unhealthy(&health), "the store does not respond");
    }

    #[test]
    fn failing_receives_degrade_a_worker() {
        let health = WorkerHealth::default();
        for _ in 0..CHECKS {
            for queue in QueueName::ALL {
                health.receive_failed(queue);
            }
            check(&health, Some(true));
        }
        assert!(degraded(&health).contains("cannot be received"));
    }

    #[test]
    fn store_outage_does_not_replace_a_worker() {
        let health = WorkerHealth::default();
        health.job_ended(run("before"), JobProgress::Processed);
        for name in ["a", "b", "c"] {
            health.job_ended(run(name), JobProgress::StoreFailed);
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
            health.job_ended(run(name), JobProgress::StoreFailed);
        }
        assert_eq!(health.status(), HealthStatus::Healthy, "two runs may be damaged");
        health.job_ended(run("c"), JobProgress::StoreFailed);
        assert!(unhealthy(&health).contains("the store fails every operation"));
        health.job_ended(run("d"), JobProgress::Processed);
        assert_eq!(health.status(), HealthStatus::Healthy);
    }

    #[test]
    fn worker_recovers_when_others_process_its_runs() {
        let health = WorkerHealth::default();
        for name in ["a", "b", "c"] {
            health.job_ended(run(name), JobProgress::StoreFailed);
        }
        for _ in 0..CHECKS {
            check(&health, Some(false));
            unhealthy(&health);
        }
        check(&health, Some(false));
        assert_eq!(health.status(), HealthStatus::Healthy);
    }
}
