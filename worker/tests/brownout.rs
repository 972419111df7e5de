//! The store is unavailable for longer than a message may fail: nothing is lost.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use connectors::{ConnectorSettings, HostAllowList};
use countersign_worker::{CancellationToken, Worker, WorkerSettings};
use domain::{Cause, Digest, Initiator, Job, Plan, QueueName, RunKey, RunStatus, Source};
use engine::{Engine, EngineParts, EvidenceSigner, InboundEvent, StartRun, Timing};
use evidence::SigningKey;
use serde_json::json;
use store::{
    Archive as _, Intercept, Intercepted, Ledger as _, Queue as _, SqliteOptions, SqliteStore, StoreCall,
    StoreError,
};
use support::Virtual;

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

/// Fails calls whose names start with one of these.
#[derive(Clone)]
struct Ailing(Arc<Mutex<(Ails, &'static [&'static str])>>);

impl Intercept for Ailing {
    type State = ();

    async fn before(&self, site: &StoreCall) -> Result<(), StoreError> {
        let (ails, calls) = *self.0.lock().unwrap();
        let doing = site.name;
        if !calls.iter().any(|call| doing.starts_with(call)) {
            return Ok(());
        }
        match ails {
            Ails::Nothing => Ok(()),
            Ails::Busy => Err(StoreError::Busy { doing }),
            Ails::NoReply => Err(StoreError::Unknown { doing }),
            Ails::Slow => {
                tokio::time::sleep(Duration::from_secs(6)).await;
                Err(StoreError::Unknown { doing })
            }
            Ails::Damaged => Err(StoreError::broken(doing, "not what was written")),
        }
    }

    async fn after(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

struct TestEnv {
    engine: Arc<Engine<Intercepted<SqliteStore, Ailing>>>,
    ailing: Ailing,
    /// The same store without faults.
    store: SqliteStore,
}

impl TestEnv {
    fn set() -> Self {
        let clock = Arc::new(Virtual::begin());
        let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        let store = SqliteStore::memory(options).unwrap();
        let ailing = Ailing(Arc::new(Mutex::new((Ails::Nothing, ALL))));
        let key = Arc::new(SigningKey::from_seed([7; 32]));
        let engine = Arc::new(Engine::new(EngineParts {
            store: Arc::new(Intercepted::new(store.clone(), ailing.clone())),
            tools: connectors::standard_tools(HostAllowList::default(), ConnectorSettings::default()),
            clock,
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            notifier: None,
            evidence_signer: Some(EvidenceSigner { key, origin: "test".to_owned() }),
        }));
        Self { engine, ailing, store }
    }

    /// From now on these calls fail.
    fn ails(&self, ails: Ails, calls: &'static [&'static str]) {
        *self.ailing.0.lock().unwrap() = (ails, calls);
    }

    fn recovers(&self) {
        self.ails(Ails::Nothing, ALL);
    }

    fn plan(&self, head: &str) -> Plan {
        let names = self.engine.tools().names().cloned().collect();
        workflow::parse(&format!("workflow: w\nversion: 1\n{head}{STEPS}"), &names).unwrap()
    }

    async fn start(&self) -> RunKey {
        let request = StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: self.plan(""),
            trigger_kind: "test".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({ "n": 1 }),
            by: Initiator::new(Cause::User, "anna"),
        };
        self.engine.admission().start(request).await.unwrap().run
    }

    /// A webhook arrives that starts a run.
    async fn arrives(&self) -> RunKey {
        let plan = self.plan("trigger: { servicenow: { table: incident } }\n");
        let tenant = "acme".parse().unwrap();
        self.engine.tenant_handle(&tenant, &Initiator::new(Cause::User, "ada")).apply(&plan).await.unwrap();
        let event = InboundEvent {
            tenant,
            key: "sn:1".parse().unwrap(),
            source: Source::ServiceNow,
            topic: Some("incident".to_owned()),
            record: None,
            proof: Digest::of_bytes(b"sn:1"),
            dedupe_key: None,
            body: json!({ "n": 1 }),
            start_request: None,
        };
        self.engine.admission().accept(event).await.unwrap().run
    }

    /// Runs a worker for this long.
    async fn work(&self, mins: u64) {
        let shutdown = CancellationToken::new();
        let settings = WorkerSettings::default();
        let worker = Worker::new(Arc::clone(&self.engine), settings, "w".parse().unwrap(), shutdown.clone());
        let working = tokio::spawn(worker.run());
        tokio::time::sleep(Duration::from_mins(mins)).await;
        shutdown.cancel();
        let finished = working.await.unwrap();
        // A worker that waits for a slow failure at shutdown is cut off.
        assert!(finished || self.ailing.0.lock().unwrap().0 == Ails::Slow);
    }

    async fn status(&self, run: &RunKey) -> Option<RunStatus> {
        self.store.load(run).await.unwrap().map(|record| record.status)
    }

    async fn dead(&self) -> Vec<Job> {
        let letters = self.store.dead_letters(10).await.unwrap();
        letters.into_iter().map(|letter| letter.job).collect()
    }

    async fn messages(&self) -> u64 {
        let mut messages = 0;
        for queue in QueueName::ALL {
            messages += self.store.depth(queue).await.unwrap();
        }
        messages
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
