//! The store is unavailable for longer than a message may fail: nothing is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::{Job, RunKey, RunStatus};
use engine::StartRun;
use serde_json::json;
use store::{Archive as _, Intercepted, Ledger as _, SqliteStore, StoreError};
use testkit::{Fault, Faults, TestClock, TestEnv};

use crate::support;

const STEPS: &str = "steps:\n  - { id: a, tool: transform, with: { value: '${ trigger.n }' } }\n";

/// Every call except those of the queue and the worker registry.
const STORE_CALLS: &[&str] = &["ledger.", "inbox.", "archive.", "governance.", "blobs."];

/// How the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreFault {
    None,
    Busy,
    NoReply,
    /// It fails late.
    Slow,
    Damaged,
}

/// Which calls fail, and how.
type ActiveFault = Arc<Mutex<(StoreFault, &'static [&'static str])>>;

fn faults(active: &ActiveFault) -> Faults {
    let active = Arc::clone(active);
    Faults::new(move |call| {
        let (fault, calls) = *active.lock().unwrap();
        let doing = call.name;
        if !calls.iter().any(|call| doing.starts_with(call)) {
            return Fault::None;
        }
        match fault {
            StoreFault::None => Fault::None,
            StoreFault::Busy => Fault::Fail(StoreError::Busy { doing }),
            StoreFault::NoReply => Fault::Fail(StoreError::Unknown { doing }),
            StoreFault::Slow => Fault::FailAfter(Duration::from_secs(6), StoreError::Unknown { doing }),
            StoreFault::Damaged => Fault::Fail(StoreError::broken(doing, "not what was written")),
        }
    })
}

struct OutageEnv {
    env: TestEnv<Intercepted<SqliteStore, Faults>>,
    active: ActiveFault,
    /// The same store without faults.
    store: SqliteStore,
}

impl OutageEnv {
    fn new() -> Self {
        let active = Arc::new(Mutex::new((StoreFault::None, STORE_CALLS)));
        let builder = testkit::engine().standard_tools().clock(TestClock::runtime()).signed();
        let store = builder.memory();
        let env = builder.env_on(Intercepted::new(store.clone(), faults(&active)));
        Self { env, active, store }
    }

    /// From now on these calls fail.
    fn inject(&self, fault: StoreFault, calls: &'static [&'static str]) {
        *self.active.lock().unwrap() = (fault, calls);
    }

    fn recover(&self) {
        self.inject(StoreFault::None, STORE_CALLS);
    }

    async fn start(&self) -> RunKey {
        let request = self.env.request(&format!("workflow: w\nversion: 1\n{STEPS}"), "k");
        self.env.start_as(StartRun { input: json!({ "n": 1 }), ..request }).await
    }

    /// Delivers a webhook that starts a run.
    async fn deliver_webhook(&self) -> RunKey {
        let trigger = "trigger: { servicenow: { table: incident } }";
        self.env.apply(&format!("workflow: w\nversion: 1\n{trigger}\n{STEPS}")).await;
        let event = testkit::event("sn:1", json!({ "n": 1 }));
        self.env.engine.admission().accept(event).await.unwrap().run
    }

    /// Runs a worker for this long.
    async fn run_worker(&self, mins: u64) {
        let finished = support::run_worker(&self.env.engine, Duration::from_mins(mins)).await;
        // A worker that waits for a slow failure at shutdown is cut off.
        assert!(finished || self.active.lock().unwrap().0 == StoreFault::Slow);
    }

    async fn status(&self, run: &RunKey) -> Option<RunStatus> {
        self.store.load(run).await.unwrap().map(|record| record.status)
    }

    async fn dead_letters(&self) -> Vec<Job> {
        testkit::dead_letters(&self.store).await
    }

    async fn messages(&self) -> u64 {
        testkit::messages(&self.store).await
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_survives_a_long_store_outage() {
    for fault in [StoreFault::Busy, StoreFault::NoReply, StoreFault::Slow] {
        let env = OutageEnv::new();
        let run = env.deliver_webhook().await;
        env.inject(fault, STORE_CALLS);
        env.run_worker(45).await;
        assert_eq!((env.dead_letters().await, env.messages().await), (vec![], 1), "{fault:?}");

        env.recover();
        env.run_worker(5).await;
        assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded), "{fault:?}");
        assert_eq!((env.dead_letters().await, env.messages().await), (vec![], 0), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn evidence_survives_a_long_archive_outage() {
    let env = OutageEnv::new();
    env.inject(StoreFault::Busy, &["archive."]);
    let run = env.start().await;
    env.run_worker(45).await;
    assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded));
    assert_eq!((env.dead_letters().await, env.messages().await), (vec![], 1));

    // A message that was postponed many times waits five minutes.
    env.recover();
    env.run_worker(6).await;
    assert!(env.store.evidence(&run).await.unwrap().is_some());
}

/// The message becomes a dead letter. No operator has to redrive it.
#[tokio::test(start_paused = true)]
async fn evidence_is_built_after_the_store_is_repaired() {
    let env = OutageEnv::new();
    env.inject(StoreFault::Damaged, &["archive."]);
    let run = env.start().await;
    env.run_worker(15).await;
    assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded));
    assert_eq!((env.dead_letters().await, env.messages().await), (vec![Job::BuildEvidence], 0));

    env.recover();
    env.run_worker(16).await;
    assert!(env.store.evidence(&run).await.unwrap().is_some());
    assert_eq!((env.dead_letters().await, env.messages().await), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn run_survives_a_long_store_outage() {
    let env = OutageEnv::new();
    let run = env.start().await;
    env.inject(StoreFault::Busy, STORE_CALLS);
    env.run_worker(45).await;
    assert_eq!((env.status(&run).await, env.dead_letters().await), (Some(RunStatus::Queued), vec![]));

    env.recover();
    env.run_worker(5).await;
    assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded));
}

/// The sweep finds the run, and sends a message each time.
#[tokio::test(start_paused = true)]
async fn messages_do_not_accumulate_during_an_outage() {
    let env = OutageEnv::new();
    let run = env.start().await;
    env.inject(StoreFault::Busy, &["ledger.input"]);
    env.run_worker(180).await;
    assert!(env.messages().await <= 2, "{} messages of one run", env.messages().await);
    assert_eq!((env.status(&run).await, env.dead_letters().await), (Some(RunStatus::Queued), vec![]));

    env.recover();
    env.run_worker(10).await;
    assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn unreadable_run_becomes_a_dead_letter() {
    let env = OutageEnv::new();
    env.deliver_webhook().await;
    env.inject(StoreFault::Damaged, STORE_CALLS);
    env.run_worker(25).await;
    assert_eq!(env.dead_letters().await, [Job::Start]);
}
