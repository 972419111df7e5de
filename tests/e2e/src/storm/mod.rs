//! A storm: thousands of webhooks, some of them duplicates, while workers are killed.
//!
//! Everything runs as deployed. Signed webhooks go through the function, worker processes receive the messages, each run
//! changes one external record and ends with evidence. Afterwards an audit counts the results. The storm passes if the
//! numbers of distinct deliveries, runs, changes and evidence bundles are equal, and if the job of every dead-letter
//! message was done.

mod audit;
mod fleet;
mod plan;
mod report;
mod rng;
mod sender;
mod watcher;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::env::{DeployedEnv, TestConfig};

use audit::Audit;
use fleet::Fleet;
use plan::sys_id;
use sender::Sender;
use watcher::Watcher;

pub use plan::Storm;
pub use report::{DeadLetterReport, EvidenceReport, QueueCounts, Report, RunSeconds, SendReport};
pub use watcher::{Progress, ProgressCounts};

/// One external change, which policy allows without an approval, followed by a step without effect.
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

/// The interval between progress reports.
const POLL_EVERY: Duration = Duration::from_secs(2);

/// Runs a storm in an environment of its own and audits the result. Calls `on_progress` regularly.
pub async fn storm(storm: &Storm, config: TestConfig, on_progress: impl Fn(Progress)) -> Report {
    let separate_dynamodb = config.dynamodb.is_some();
    let env = Arc::new(DeployedEnv::open_at(config, "storm").await);
    env.apply(WORKFLOW).await;
    for record in 0..storm.distinct() {
        let number = format!("INC{record:07}");
        env.external.servicenow.report(&sys_id(record), &number, "One of many");
    }
    let started = Instant::now();
    let mut fleet = Fleet::start(Arc::clone(&env), storm.workers, storm.seed);
    let sender = Sender::new(Arc::clone(&env), storm.order());
    let tasks = sender.start(storm.in_flight);
    let sweeps = Sweeps::default();
    let mut watcher = Watcher::new(Arc::clone(&env), Arc::clone(&sender), storm).await;
    let outcome = tokio::select! {
        outcome = watcher.run_until_done(POLL_EVERY, &on_progress) => outcome,
        never = fleet.kill_forever(storm.kill_every) => match never {},
        never = sweep_forever(&env, storm.sweep_every, &sweeps) => match never {},
    };
    drop(tasks);
    // One more sweep at the end: the last one during the storm may have been interrupted.
    sweeps.call(&env).await;
    let (killed, warnings) = (fleet.killed(), fleet.end());
    let seconds =
        RunSeconds { delivering: watcher.delivered_after(started), all: started.elapsed().as_secs() };
    let results = sender.results().clone();
    let audit = Audit { env: &env, results: &results, warnings: &warnings }.count(on_progress).await;
    Report {
        storm: storm.clone(),
        separate_dynamodb,
        sent: SendReport::of(&results),
        killed,
        sweeps: sweeps.answered.load(Ordering::Relaxed),
        sweeps_failed: sweeps.failed.load(Ordering::Relaxed),
        stalled: outcome.err(),
        warnings: warnings.counts,
        seconds,
        audit,
    }
}

/// The number of sweeps, by result.
#[derive(Default)]
struct Sweeps {
    answered: AtomicU32,
    failed: AtomicU32,
}

impl Sweeps {
    async fn call(&self, env: &DeployedEnv) {
        let audit = if env.sweep().await.is_ok() { &self.answered } else { &self.failed };
        audit.fetch_add(1, Ordering::Relaxed);
    }
}

/// Invokes the sweep regularly, as the schedule does.
async fn sweep_forever(env: &DeployedEnv, every: Duration, sweeps: &Sweeps) -> Infallible {
    loop {
        tokio::time::sleep(every).await;
        sweeps.call(env).await;
    }
}
