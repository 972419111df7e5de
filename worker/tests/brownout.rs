//! A store that is away for longer than a message may come in vain: nothing that waits for it is given up.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use connectors::{Allow, Settings};
use countersign_worker::{Worker, WorkerSettings, leaving};
use domain::{Cause, Digest, Initiator, Job, Plan, QueueName, RunKey, RunStatus, Source};
use engine::{Engine, InboundEvent, Parts, Sealing, StartRun, Timing};
use evidence::SigningKey;
use serde_json::json;
use store::{
    Archive as _, Intercept, Intercepted, Ledger as _, Queue as _, Site, SqliteOptions, SqliteStore,
    StoreError,
};
use support::Virtual;

const STEPS: &str = "steps:\n  - { id: a, tool: transform, with: { value: '${ trigger.n }' } }\n";

/// Everything but the queue and the roll.
const ALL: &[&str] = &["ledger.", "inbox.", "archive.", "governance.", "blobs."];

/// What ails a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ails {
    Nothing,
    Busy,
    NoReply,
    /// It says so late.
    Slow,
    Damaged,
}

/// Has calls fail whose names begin like one of these.
#[derive(Clone)]
struct Ailing(Arc<Mutex<(Ails, &'static [&'static str])>>);

impl Intercept for Ailing {
    type Pass = ();

    async fn before(&self, site: &Site) -> Result<(), StoreError> {
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

struct Scene {
    engine: Arc<Engine<Intercepted<SqliteStore, Ailing>>>,
    ailing: Ailing,
    /// The same store, as it is.
    store: SqliteStore,
}

impl Scene {
    fn set() -> Self {
        let clock = Arc::new(Virtual::begin());
        let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        let store = SqliteStore::memory(options).unwrap();
        let ailing = Ailing(Arc::new(Mutex::new((Ails::Nothing, ALL))));
        let key = Arc::new(SigningKey::from_seed([7; 32]));
        let engine = Arc::new(Engine::new(Parts {
            store: Arc::new(Intercepted::new(store.clone(), ailing.clone())),
            tools: connectors::standard(Allow::default(), Settings::default()),
            clock,
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: Some(Sealing { key, origin: "test".to_owned() }),
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
        let wish = StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: self.plan(""),
            trigger_kind: "test".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({ "n": 1 }),
            by: Initiator::new(Cause::User, "anna"),
        };
        self.engine.start(wish).await.unwrap().run
    }

    /// A webhook comes that starts a run.
    async fn arrives(&self) -> RunKey {
        let plan = self.plan("trigger: { servicenow: { table: incident } }\n");
        let tenant = "acme".parse().unwrap();
        self.engine.apply(&tenant, &plan, Initiator::new(Cause::User, "ada")).await.unwrap();
        let knock = InboundEvent {
            tenant,
            key: "sn:1".parse().unwrap(),
            source: Source::ServiceNow,
            about: Some("incident".to_owned()),
            record: None,
            proof: Digest::of_bytes(b"sn:1"),
            dedupe_key: None,
            body: json!({ "n": 1 }),
            asked: None,
        };
        self.engine.accept(knock).await.unwrap().run
    }

    /// A worker works for this long.
    async fn work(&self, mins: u64) {
        let (leave, leaving) = leaving();
        let settings = WorkerSettings::default();
        let worker = Worker::new(Arc::clone(&self.engine), settings, "w".parse().unwrap(), leaving);
        let working = tokio::spawn(worker.run());
        tokio::time::sleep(Duration::from_mins(mins)).await;
        leave.ask();
        let finished = working.await.unwrap();
        // Whoever waits for a slow no when it is asked to leave does not hear it.
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
async fn a_webhook_is_taken_up_however_long_the_store_was_away() {
    for ails in [Ails::Busy, Ails::NoReply, Ails::Slow] {
        let scene = Scene::set();
        let run = scene.arrives().await;
        scene.ails(ails, ALL);
        scene.work(45).await;
        assert_eq!((scene.dead().await, scene.messages().await), (vec![], 1), "{ails:?}");

        scene.recovers();
        scene.work(5).await;
        assert_eq!(scene.status(&run).await, Some(RunStatus::Succeeded), "{ails:?}");
        assert_eq!((scene.dead().await, scene.messages().await), (vec![], 0), "{ails:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_gets_its_evidence_however_long_the_archive_was_away() {
    let scene = Scene::set();
    scene.ails(Ails::Busy, &["archive."]);
    let run = scene.start().await;
    scene.work(45).await;
    assert_eq!(scene.status(&run).await, Some(RunStatus::Succeeded));
    assert_eq!((scene.dead().await, scene.messages().await), (vec![], 1));

    // A message that has been put off again and again waits for a quarter of an hour before it comes anew.
    scene.recovers();
    scene.work(16).await;
    assert!(scene.store.evidence(&run).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_however_long_the_store_was_away() {
    let scene = Scene::set();
    let run = scene.start().await;
    scene.ails(Ails::Busy, ALL);
    scene.work(45).await;
    assert_eq!((scene.status(&run).await, scene.dead().await), (Some(RunStatus::Queued), vec![]));

    scene.recovers();
    scene.work(5).await;
    assert_eq!(scene.status(&run).await, Some(RunStatus::Succeeded));
}

/// The sweep finds the run, and sends a message each time.
#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_walked_for_hours_gathers_no_heap_of_messages() {
    let scene = Scene::set();
    let run = scene.start().await;
    scene.ails(Ails::Busy, &["ledger.input"]);
    scene.work(180).await;
    assert!(scene.messages().await <= 2, "{} messages of one run", scene.messages().await);
    assert_eq!((scene.status(&run).await, scene.dead().await), (Some(RunStatus::Queued), vec![]));

    scene.recovers();
    scene.work(10).await;
    assert_eq!(scene.status(&run).await, Some(RunStatus::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_given_up_for_a_person_to_look_at() {
    let scene = Scene::set();
    scene.arrives().await;
    scene.ails(Ails::Damaged, ALL);
    scene.work(25).await;
    assert_eq!(scene.dead().await, [Job::Start]);
}
