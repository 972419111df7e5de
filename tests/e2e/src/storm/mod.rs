//! A storm: webhooks by the thousand, some of them twice, while workers are killed.
//!
//! Everything is as deployed: signed webhooks go through the function, worker processes take the messages, each run
//! changes a record of its own outside and ends in evidence. Afterwards it is counted. Nothing is lost if there are
//! as many runs as distinct deliveries, as many changes as runs, and as much evidence; and if every message that
//! was given up can be explained.

mod audit;
mod chance;
mod fleet;
mod plan;
mod report;
mod sender;
mod watch;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::account::{Account, Site};

use audit::Audit;
use fleet::Fleet;
use plan::sys_id;
use sender::Sender;
use watch::Watch;

pub use plan::Storm;
pub use report::{Dead, Evidence, Queues, Report, Seconds, Sending};
pub use watch::{Progress, Seen};

/// One change outside, which policy allows without asking anybody, between two steps that change nothing.
const WORKFLOW: &str = r#"
workflow: storm
version: 1
environment: dev
trigger: { servicenow: { table: incident } }
steps:
  - id: assign
    tool: servicenow.update
    with: { table: incident, sys_id: "${ trigger.record.sys_id }", fields: { assignment_group: db-oncall } }
    blast_radius: low
  - { id: done, tool: transform, with: { value: { sys_id: "${ trigger.record.sys_id }" } } }
"#;

/// How often whoever watches is told.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Lets a storm loose on an account of its own at `site`, and counts what is left of it. `tell` is told how it goes.
pub async fn storm(storm: &Storm, site: Site, tell: impl Fn(Progress)) -> Report {
    let table_apart = site.dynamodb.is_some();
    let account = Arc::new(Account::open_at(site, "storm").await);
    account.apply(WORKFLOW).await;
    for record in 0..storm.distinct() {
        let number = format!("INC{record:07}");
        account.outside.servicenow.report(&sys_id(record), &number, "One of many");
    }
    let begun = Instant::now();
    let mut fleet = Fleet::start(Arc::clone(&account), storm.workers, storm.seed);
    let sender = Sender::new(Arc::clone(&account), storm.order());
    let hands = sender.start(storm.in_flight);
    let sweeps = Sweeps::default();
    let mut watch = Watch::new(Arc::clone(&account), Arc::clone(&sender), storm).await;
    let over = tokio::select! {
        over = watch.until_over(LOOK_EVERY, &tell) => over,
        never = fleet.kill_for_ever(storm.kill_every) => match never {},
        never = sweep_for_ever(&account, storm.sweep_every, &sweeps) => match never {},
    };
    drop(hands);
    // Once in the calm: whoever was called in the storm may have been cut off by its end.
    sweeps.call(&account).await;
    let (killed, warnings) = (fleet.killed(), fleet.end());
    let seconds = Seconds { delivering: watch.delivered_after(begun), all: begun.elapsed().as_secs() };
    let told = sender.told().clone();
    let counted = Audit { account: &account, told: &told, warnings: &warnings }.count(tell).await;
    Report {
        storm: storm.clone(),
        table_apart,
        sent: Sending::of(&told),
        killed,
        sweeps: sweeps.answered.load(Ordering::Relaxed),
        sweeps_failed: sweeps.failed.load(Ordering::Relaxed),
        stalled: over.err(),
        warnings: warnings.counts,
        seconds,
        counted,
    }
}

/// How often the sweep was called, by what came of it.
#[derive(Default)]
struct Sweeps {
    answered: AtomicU32,
    failed: AtomicU32,
}

impl Sweeps {
    async fn call(&self, account: &Account) {
        let counted = if account.sweep().await.is_ok() { &self.answered } else { &self.failed };
        counted.fetch_add(1, Ordering::Relaxed);
    }
}

/// Calls the sweep, as the schedule does; one that failed is followed by the next.
async fn sweep_for_ever(account: &Account, every: Duration, sweeps: &Sweeps) -> Infallible {
    loop {
        tokio::time::sleep(every).await;
        sweeps.call(account).await;
    }
}
