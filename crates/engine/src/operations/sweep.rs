//! The sweep: finds due runs and inbox entries that no message points at, for all tenants.
//!
//! A sweep wakes runs in batches, the longest overdue first, until none is due or its time is over. A tenant with more
//! due runs than that, for example because its dispatch is stopped, must not delay the deadlines of other tenants. So a
//! tenant with many due runs is excluded when the sweep reads the index again, and the runs found are processed in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::command::Wake;
use domain::{Initiator, RunKey, TenantId};
use futures_util::future::ready;
use futures_util::stream::{self, StreamExt as _};
use store::{Due, Store, StoreError};
use tokio::time::{Instant, timeout};

use crate::admission::AdmissionService;
use crate::core::journal;
use crate::error::{EngineError, error_chain};
use crate::operations::OperationsService;

/// How many scheduled runs one sweep starts.
const SCHEDULES_MAX: u32 = 500;

/// How many runs the sweep reads and wakes before it reads the index again.
const WAKES_MAX: u32 = 2_000;

/// How many runs the sweep wakes at a time.
const CONCURRENT_WAKES: usize = 128;

/// A tenant with this many due runs in one read is excluded from the next read. If no tenant has as many, at least
/// 250 tenants share the sweep.
const EXCLUDE_FROM: usize = 8;

/// How often the index is read again. Each read excludes at least one more tenant, and usually all crowding ones.
const READS_MAX: u32 = 8;

/// How many messages are sent before the lists are read again: less than a second for a healthy store.
const FLUSH_MAX: u32 = 200;

/// The time limit of each of the sweep's three parts. The function's timeout is slightly larger than all three.
const PART_MAX: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepResult {
    /// Messages that an earlier process had not sent.
    pub sent: u32,
    /// Runs that were woken, and inbox entries whose message was sent again.
    pub woken: u32,
    /// Scheduled runs that were started.
    pub scheduled: u32,
}

impl<S: Store> OperationsService<'_, S> {
    /// Starts scheduled runs, sends messages that a process left unsent when it died after its commit, and wakes due
    /// runs. A failing part does not stop the others; the error is returned after all were tried. The part that may
    /// take longest comes last.
    pub async fn sweep(self, by: &Initiator) -> Result<SweepResult, EngineError> {
        let start = AdmissionService::new(self.core).start_due_schedules(SCHEDULES_MAX);
        let scheduled = with_time_limit("start scheduled runs", Box::pin(start)).await;
        let sent = with_time_limit("send unsent messages", Box::pin(self.flush())).await;
        let woken = log_error("wake due runs", Box::pin(self.wake_due(by)).await);
        Ok(SweepResult { sent: sent?, woken: woken?, scheduled: scheduled? })
    }

    /// Sends unsent messages and requests missing evidence, until none is left or half the time is over: after a long
    /// outage there are many.
    async fn flush(self) -> Result<u32, EngineError> {
        let (until, mut sent) = (Instant::now() + PART_MAX / 2, 0);
        loop {
            let batch = self.core.retry_busy(|store| store.flush(self.core.now(), FLUSH_MAX)).await?;
            sent += batch;
            if batch < FLUSH_MAX || Instant::now() >= until {
                return Ok(sent);
            }
        }
    }

    /// Wakes due runs; returns how many. It stops before the function's timeout, because a function that is cut off
    /// counts as failed; the rest stay due.
    async fn wake_due(self, by: &Initiator) -> Result<u32, EngineError> {
        let mut due = self.due().await?;
        // The limit counts from here, so that a sweep with a slow read still wakes some.
        let until = Instant::now() + PART_MAX;
        let mut woken = 0;
        loop {
            let more = due.len() >= usize::try_from(WAKES_MAX).unwrap_or(usize::MAX);
            let batch = self.wake_all(by, due, until).await;
            woken += batch;
            if Instant::now() >= until {
                tracing::warn!(
                    event = "sweep_incomplete",
                    woken,
                    "sweep ran out of time; the next sweep continues"
                );
                return Ok(woken);
            }
            // A batch in which no run could be woken would be found again.
            if !more || batch == 0 {
                return Ok(woken);
            }
            due = self.due().await?;
        }
    }

    /// Wakes these runs, several at a time; returns how many were woken before `until`.
    async fn wake_all(self, by: &Initiator, due: Vec<Due>, until: Instant) -> u32 {
        let wakes =
            round_robin(due).map(|due| async move { Instant::now() < until && self.wake(by, &due).await });
        stream::iter(wakes)
            .buffer_unordered(CONCURRENT_WAKES)
            .filter(|woken| ready(*woken))
            .count()
            .await
            .try_into()
            .unwrap_or(u32::MAX)
    }

    /// Wakes a due run or entry. Returns whether it did.
    async fn wake(self, by: &Initiator, due: &Due) -> bool {
        let woken = match due {
            Due::Run(run) => self.wake_run(by, run).await,
            Due::Entry(run) => Box::pin(AdmissionService::new(self.core).resend_entry(run)).await,
        };
        // One that cannot be read must not keep the others from being woken.
        woken.unwrap_or_else(|error| {
            let (run, error) = (due.run(), error_chain(&error));
            tracing::error!(event = "wake_failed", %run, %error, "due run not woken");
            false
        })
    }

    async fn wake_run(self, by: &Initiator, run: &RunKey) -> Result<bool, EngineError> {
        match self.core.decide(run, by, &Wake).await {
            Ok(why) => {
                journal::log_woken(run, why);
                Ok(true)
            }
            // The run ended or was processed since the index was read.
            Err(EngineError::Refused(_) | EngineError::Contended { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The longest overdue runs of crowding tenants, and the longest overdue runs of all others.
    async fn due(self) -> Result<Vec<Due>, EngineError> {
        let now = self.core.now();
        let (mut due, mut excluded) = (Vec::new(), BTreeSet::new());
        for read in 1..=READS_MAX {
            let found = self.core.retry_busy(|store| store.due_excluding(&excluded, now, WAKES_MAX)).await?;
            let crowding = crowding_tenants(&found);
            if crowding.is_empty() || read == READS_MAX {
                due.extend(found);
                break;
            }
            // The next read finds the runs of the other tenants again, and those behind them.
            due.extend(found.into_iter().filter(|due| crowding.contains(&due.run().tenant)));
            excluded.extend(crowding);
        }
        Ok(due)
    }
}

/// Runs a part of the sweep with a time limit. Unfinished work stays due.
async fn with_time_limit<T>(
    doing: &'static str,
    part: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let done = timeout(PART_MAX, part).await;
    log_error(doing, done.unwrap_or_else(|_| Err(StoreError::Busy { doing }.into())))
}

/// Logs the error of a part of the sweep: the caller gets only one of them.
fn log_error<T>(doing: &str, done: Result<T, EngineError>) -> Result<T, EngineError> {
    done.inspect_err(|error| {
        tracing::error!(event = "sweep_part_failed", doing, error = %error_chain(error), "part of the sweep failed");
    })
}

/// The tenants with so many of these runs that other tenants may be missing.
fn crowding_tenants(found: &[Due]) -> BTreeSet<TenantId> {
    let mut counts: BTreeMap<&TenantId, usize> = BTreeMap::new();
    for due in found {
        *counts.entry(&due.run().tenant).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count >= EXCLUDE_FROM).map(|(tenant, _)| tenant.clone()).collect()
}

/// At most [`WAKES_MAX`] runs: the first of each tenant, then the second of each, and so on.
fn round_robin(due: Vec<Due>) -> impl Iterator<Item = Due> {
    let mut counts: BTreeMap<TenantId, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, Due)> = Vec::with_capacity(due.len());
    for due in due {
        let turn = counts.entry(due.run().tenant.clone()).or_default();
        turns.push((*turn, due));
        *turn += 1;
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, due)| due).take(usize::try_from(WAKES_MAX).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(tenant: &str, count: usize) -> Vec<Due> {
        let run = |n| RunKey { tenant: tenant.parse().unwrap(), run: format!("run-{n}").parse().unwrap() };
        (0..count).map(|n| Due::Run(run(n))).collect()
    }

    #[test]
    fn large_tenant_does_not_delay_a_small_one() {
        let due = [runs("acme", 2_100), runs("umbrella", 2)].concat();
        let taken: Vec<Due> = round_robin(due).collect();
        assert_eq!(taken.len(), 2_000);
        let other = |due: &Due| due.run().tenant.as_str() == "umbrella";
        assert_eq!(taken.iter().filter(|due| other(due)).count(), 2);
        assert!(other(&taken[1]) && other(&taken[3]));
        let ours: Vec<Due> = taken.into_iter().filter(|due| !other(due)).collect();
        assert_eq!(ours, runs("acme", 1_998), "each tenant's longest overdue come first");
    }

    #[test]
    fn tenant_with_many_due_runs_is_excluded() {
        let found = [runs("acme", EXCLUDE_FROM), runs("umbrella", EXCLUDE_FROM - 1)].concat();
        assert_eq!(crowding_tenants(&found), ["acme".parse().unwrap()].into());
    }
}
