//! The sweep: what nobody looks at is found again, whoever's it is.
//!
//! It takes a bounded number of runs in one go, the longest overdue first. A tenant with more of them than that, because
//! its dispatch has been stopped for long, must not keep it from the deadlines of others. So whoever crowds the sweep is
//! passed over when it looks again for the others, and what was found is taken up in turns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::command::Wake;
use domain::{Initiator, RunKey, TenantId};
use store::{Store, StoreError};
use tokio::time::{Instant, timeout};

use crate::Engine;
use crate::error::{EngineError, told};
use crate::journal;

/// The sweep takes this many runs in one go; what is left is still due the next time.
const SWEEP_MAX: u32 = 500;

/// A tenant with so many runs among those that are found is passed over in the next look. Where nobody has as many,
/// sixty share the sweep.
const CROWD: usize = 8;

/// How often the sweep looks beyond those who crowd it. Each look leaves out at least one of them, and as a rule all.
const LOOKS_MAX: u32 = 8;

/// It sends this many messages in one go: a second or two for a store that is well.
const FLUSH_MAX: u32 = 200;

/// How long a part of the sweep may take, of which there are three; finding what is due comes before the third. A function
/// that sweeps is given a little more than all.
const PART_MAX: Duration = Duration::from_secs(15);

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swept {
    /// How many messages were sent that had been left behind.
    pub sent: u32,
    /// How many runs were woken.
    pub woken: u32,
    /// How many slots of schedules were taken up.
    pub scheduled: u32,
}

impl<S: Store> Engine<S> {
    /// Takes up the slots of schedules, sends what whoever died between a commit and its messages left behind, and wakes
    /// runs whose due time has passed. What keeps one of these from being done keeps none of the others: whoever sweeps is
    /// told when all were tried. What may take long comes last.
    pub async fn sweep(&self, by: &Initiator) -> Result<Swept, EngineError> {
        let scheduled = in_time("take up slots", Box::pin(self.take_up_slots(SWEEP_MAX))).await;
        let left = async { Ok(self.retry_busy(|| self.store.flush(self.now(), FLUSH_MAX)).await?) };
        let sent = in_time("send what was left behind", Box::pin(left)).await;
        let woken = noted("wake what is due", Box::pin(self.wake_due(by)).await);
        Ok(Swept { sent: sent?, woken: woken?, scheduled: scheduled? })
    }

    /// Wakes runs whose due time has passed; says how many. A function that is cut off has failed, so whoever finds more
    /// than there is time for stops by itself: what is left is still due the next time.
    async fn wake_due(&self, by: &Initiator) -> Result<u32, EngineError> {
        let due = self.due().await?;
        // From here on: a sweep that was long in finding them must wake some, or the next would be as long.
        let until = Instant::now() + PART_MAX;
        let mut woken = 0;
        for run in in_turns(due) {
            if Instant::now() >= until {
                tracing::warn!(woken, "more is due than could be woken in time; the next sweep goes on");
                break;
            }
            match self.decide(&run, by, &Wake).await {
                Ok(why) => {
                    journal::woken(&run, why);
                    woken += 1;
                }
                // It ended, or somebody took it up, since the index was read.
                Err(EngineError::Refused(_) | EngineError::Contended { .. }) => {}
                // One run that cannot be read must not keep the others from being looked after.
                Err(error) => tracing::error!(%run, error = %told(&error), "a run that is due was not woken"),
            }
        }
        Ok(woken)
    }

    /// Runs that are due: the longest overdue of those who crowd the sweep, and the longest overdue of all others.
    async fn due(&self) -> Result<Vec<RunKey>, EngineError> {
        let now = self.now();
        let (mut due, mut crowd) = (Vec::new(), BTreeSet::new());
        for look in 1..=LOOKS_MAX {
            let found = self.retry_busy(|| self.store.due_excluding(&crowd, now, SWEEP_MAX)).await?;
            let crowding = crowding(&found);
            if crowding.is_empty() || look == LOOKS_MAX {
                due.extend(found);
                break;
            }
            // The next look finds the others again, and those behind them.
            due.extend(found.into_iter().filter(|run| crowding.contains(&run.tenant)));
            crowd.extend(crowding);
        }
        Ok(due)
    }
}

/// What became of a part of the sweep that must not use up the time of the others. What is cut off is still due the next
/// time.
async fn in_time<T>(
    doing: &'static str,
    part: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let done = timeout(PART_MAX, part).await;
    noted(doing, done.unwrap_or_else(|_| Err(StoreError::Busy { doing }.into())))
}

/// What became of a part of the sweep, logged if it failed: whoever sweeps is told of one error alone.
fn noted<T>(doing: &str, done: Result<T, EngineError>) -> Result<T, EngineError> {
    done.inspect_err(|error| tracing::error!(doing, error = %told(error), "a part of the sweep was not done"))
}

/// The tenants that have so many of these runs that others may not have come in.
fn crowding(found: &[RunKey]) -> BTreeSet<TenantId> {
    let mut counts: BTreeMap<&TenantId, usize> = BTreeMap::new();
    for run in found {
        *counts.entry(&run.tenant).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count >= CROWD).map(|(tenant, _)| tenant.clone()).collect()
}

/// As many as the sweep takes: the first of each tenant, then the second of each, and so on.
fn in_turns(due: Vec<RunKey>) -> impl Iterator<Item = RunKey> {
    let mut had: BTreeMap<TenantId, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, RunKey)> = Vec::with_capacity(due.len());
    for run in due {
        let turn = had.entry(run.tenant.clone()).or_default();
        turns.push((*turn, run));
        *turn += 1;
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, run)| run).take(usize::try_from(SWEEP_MAX).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(tenant: &str, count: usize) -> Vec<RunKey> {
        let run = |n| RunKey { tenant: tenant.parse().unwrap(), run: format!("run-{n}").parse().unwrap() };
        (0..count).map(run).collect()
    }

    #[test]
    fn whoever_has_little_is_not_behind_whoever_has_much() {
        let due = [runs("acme", 600), runs("umbrella", 2)].concat();
        let taken: Vec<RunKey> = in_turns(due).collect();
        assert_eq!(taken.len(), 500);
        let other = |run: &RunKey| run.tenant.as_str() == "umbrella";
        assert_eq!(taken.iter().filter(|run| other(run)).count(), 2);
        assert!(other(&taken[1]) && other(&taken[3]));
        let ours: Vec<RunKey> = taken.into_iter().filter(|run| !other(run)).collect();
        assert_eq!(ours, runs("acme", 498), "each tenant's longest overdue come first");
    }

    #[test]
    fn only_whoever_has_many_crowds() {
        let found = [runs("acme", CROWD), runs("umbrella", CROWD - 1)].concat();
        assert_eq!(crowding(&found), ["acme".parse().unwrap()].into());
    }
}
