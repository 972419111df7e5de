//! The store is unavailable for longer than a message may fail: nothing is lost.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::{Job, RunKey, RunStatus};
use engine::{Engine, StartRun};
use serde_json::json;
use store::{Archive as _, Intercepted, Ledger as _, SqliteStore, StoreError};
use testkit::{Fault, Faults, TestClock};

use crate::support;

const STEPS: &str = "steps:\n  - { id: a, tool: transform, with: { value: '${ trigger.n }' } }\n";

/// Every call except those of the queue and the worker registry.
const ALL: &[&str] = &["ledger.", "inbox.", "archive.", "governance.", "blobs."];

/// How the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ails {
    Nothing,
    Busy,
    NoReply,
    /// It fails late.
    Slow,
    Damaged,
}

/// Which calls fail, and how.
type Ailing = Arc<Mutex<(Ails, &'static [&'static str])>>;

fn faults(ailing: &Ailing) -> Faults {
    let ailing = Arc::clone(ailing);
    Faults::new(move |call| {
        let (ails, calls) = *ailing.lock().unwrap();
        let doing = call.name;
        if !calls.iter().any(|call| doing.starts_with(call)) {
            return Fault::None;
        }
        match ails {
            Ails::Nothing => Fault::None,
            Ails::Busy => Fault::Fail(StoreError::Busy { doing }),
            Ails::NoReply => Fault::Fail(StoreError::Unknown { doing }),
            Ails::Slow => Fault::FailAfter(Duration::from_secs(6), StoreError::Unknown { doing }),
            Ails::Damaged => Fault::Fail(StoreError::broken(doing, "not what was written")),
        }
    })
}

struct TestEnv {
    engine: Arc<Engine<Intercepted<SqliteStore, Faults>>>,
    ailing: Ailing,
    /// The same store without faults.
    store: SqliteStore,
}

impl TestEnv {
    fn set() -> Self {
        let ailing = Arc::new(Mutex::new((Ails::Nothing, ALL)));
        let builder = testkit::engine().standard_tools().clock(TestClock::runtime()).signed();
        let store = builder.memory();
        let engine = Arc::new(builder.on(Intercepted::new(store.clone(), faults(&ailing))));
        Self { engine, ailing, store }
    }

    /// From now on these calls fail.
    fn ails(&self, ails: Ails, calls: &'static [&'static str]) {
        *self.ailing.lock().unwrap() = (ails, calls);
    }

    fn recovers(&self) {
        self.ails(Ails::Nothing, ALL);
    }

    async fn start(&self) -> RunKey {
        let source = format!(
            "workflow: w
version: 1
{STEPS}"
        );
        let request = StartRun { input: json!({ "n": 1 }), ..testkit::request(&self.engine, &source, "k") };
        self.engine.admission().start(request).await.unwrap().run
    }

    /// A webhook arrives that starts a run.
    async fn arrives(&self) -> RunKey {
        let trigger = "trigger: { servicenow: { table: incident } }";
        testkit::apply(
            &self.engine,
            &format!(
                "workflow: w
version: 1
{trigger}
{STEPS}"
            ),
        )
        .await;
        let event = testkit::event("sn:1", json!({ "n": 1 }));
        self.engine.admission().accept(event).await.unwrap().run
    }

    /// Runs a worker for this long.
    async fn work(&self, mins: u64) {
        let finished = support::work(&self.engine, Duration::from_mins(mins)).await;
        // A worker that waits for a slow failure at shutdown is cut off.
        assert!(finished || self.ailing.lock().unwrap().0 == Ails::Slow);
    }

    async fn status(&self, run: &RunKey) -> Option<RunStatus> {
        self.store.load(run).await.unwrap().map(|record| record.status)
    }

    async fn dead(&self) -> Vec<Job> {
        testkit::dead_letters(&self.store).await
    }

    async fn messages(&self) -> u64 {
        testkit::messages(&self.store).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_survives_a_long_store_outage() {
    for ails in [Ails::Busy, Ails::NoReply, Ails::Slow] {
        let env = TestEnv::set();
        let run = env.arrives().await;
        env.ails(ails, ALL);
        env.work(45).await;
        assert_eq!((env.dead().await, env.messages().await), (vec![], 1), "{ails:?}");

        env.recovers();
        env.work(5).await;
        assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded), "{ails:?}");
        assert_eq!((env.dead().await, env.messages().await), (vec![], 0), "{ails:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn evidence_survives_a_long_archive_outage() {
    let env = TestEnv::set();
    env.ails(Ails::Busy, &["archive."]);
    let run = env.start().await;
    env.work(45).await;
    assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded));
    assert_eq!((env.dead().await, env.messages().await), (vec![], 1));

    // A message that was postponed many times waits a quarter of an hour.
    env.recovers();
    env.work(16).await;
    assert!(env.store.evidence(&run).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_run_survives_a_long_store_outage() {
    let env = TestEnv::set();
    let run = env.start().await;
    env.ails(Ails::Busy, ALL);
    env.work(45).await;
    assert_eq!((env.status(&run).await, env.dead().await), (Some(RunStatus::Queued), vec![]));

    env.recovers();
    env.work(5).await;
    assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded));
}

/// The sweep finds the run, and sends a message each time.
#[tokio::test(start_paused = true)]
async fn messages_do_not_accumulate_during_an_outage() {
    let env = TestEnv::set();
    let run = env.start().await;
    env.ails(Ails::Busy, &["ledger.input"]);
    env.work(180).await;
    assert!(env.messages().await <= 2, "{} messages of one run", env.messages().await);
    assert_eq!((env.status(&run).await, env.dead().await), (Some(RunStatus::Queued), vec![]));

    env.recovers();
    env.work(10).await;
    assert_eq!(env.status(&run).await, Some(RunStatus::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_run_becomes_a_dead_letter() {
    let env = TestEnv::set();
    env.arrives().await;
    env.ails(Ails::Damaged, ALL);
    env.work(25).await;
    assert_eq!(env.dead().await, [Job::Start]);
}
