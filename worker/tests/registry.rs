//! The roll, with real workers, in time that passes as soon as everybody waits.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Ask, Call, Done, Outcome, Tool, Toolbox};
use countersign_worker::{Leave, Worker, WorkerSettings, leaving};
use domain::worker_registry::{HEARTBEAT_EVERY, KEPT_FOR, OFFLINE_AFTER};
use domain::{
    Action, Cause, EffectClass, Failure, IdempotencyKey, Initiator, Reversibility, RunKey, RunStatus,
    ToolName, WorkerId, WorkerRecord, WorkerReport, WorkerStatus,
};
use engine::{Engine, EngineError, Parts, StartRun, Timing};
use serde_json::json;
use store::{
    Intercept, Intercepted, Ledger as _, Site, SqliteOptions, SqliteStore, Store, StoreError, SystemClock,
    WorkerRegistry as _,
};
use support::Virtual;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// Takes a while, and changes nothing.
struct Slow;

const TAKES: Duration = Duration::from_secs(20);

#[async_trait]
impl Tool for Slow {
    fn name(&self) -> ToolName {
        "test.slow".parse().unwrap()
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: EffectClass::ReadOnly,
            reversibility: Reversibility::NoEffect,
            target: "outside".to_owned(),
            key: IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step),
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            fields: json!({}),
        })
    }

    async fn perform(&self, _call: Call<'_>) -> Outcome {
        sleep(TAKES).await;
        Outcome::Done(Done::default())
    }
}

struct Scene<S> {
    engine: Arc<Engine<S>>,
}

fn me() -> WorkerId {
    "w".parse().unwrap()
}

fn ada() -> Initiator {
    Initiator::new(Cause::User, "ada")
}

impl Scene<SqliteStore> {
    fn set() -> Self {
        Self::on(|store| store)
    }
}

impl<S: Store> Scene<S> {
    fn on(change: impl FnOnce(SqliteStore) -> S) -> Self {
        let clock = Arc::new(Virtual::begin());
        let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
        let engine = Engine::new(Parts {
            store: Arc::new(change(SqliteStore::memory(options).unwrap())),
            tools: Toolbox::default().with(Slow),
            clock,
            me: me(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        });
        Self { engine: Arc::new(engine) }
    }

    async fn start(&self, steps: u32) -> RunKey {
        let names = self.engine.tools().names().cloned().collect();
        let steps: Vec<_> = (0..steps).map(|n| format!("  - {{ id: s{n}, tool: test.slow }}\n")).collect();
        let wish = StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: workflow::parse(&format!("workflow: w\nversion: 1\nsteps:\n{}", steps.concat()), &names)
                .unwrap(),
            trigger_kind: "test".to_owned(),
            key: "k".parse().unwrap(),
            record: None,
            input: json!({}),
            by: Initiator::new(Cause::User, "anna"),
        };
        self.engine.start(wish).await.unwrap().run
    }

    fn employ(&self, settings: WorkerSettings) -> (Leave, JoinHandle<bool>) {
        let (leave, leaving) = leaving();
        let worker = Worker::new(Arc::clone(&self.engine), settings, me(), leaving);
        (leave, tokio::spawn(worker.run()))
    }

    async fn worker(&self) -> WorkerRecord {
        self.engine.worker(&me()).await.unwrap()
    }

    async fn standing(&self) -> WorkerStatus {
        self.worker().await.standing(self.engine.now())
    }

    async fn status(&self, run: &RunKey) -> RunStatus {
        self.engine.store().load(run).await.unwrap().unwrap().status
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_says_what_it_does_while_it_is_there_and_that_it_leaves() {
    let scene = Scene::set();
    let (leave, working) = scene.employ(WorkerSettings::default());
    sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.standing().await, WorkerStatus::Idle);
    let run = scene.start(1).await;
    sleep(HEARTBEAT_EVERY.std()).await;
    assert_eq!(scene.worker().await.says, WorkerReport::Working { in_hand: 1 });
    assert_eq!(scene.standing().await, WorkerStatus::Executing);

    leave.ask();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(scene.worker().await.says, WorkerReport::Leaving { in_hand: 1 }, "at once");
    assert!(working.await.unwrap());
    assert_eq!(scene.worker().await.says, WorkerReport::Left { finished: true });
    assert_eq!(scene.status(&run).await, RunStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_asked_through_the_roll_finishes_its_step_and_begins_no_other() {
    let scene = Scene::set();
    let run = scene.start(3).await;
    let (_leave, working) = scene.employ(WorkerSettings::default());
    sleep(Duration::from_secs(1)).await;
    let asked = scene.engine.request_drain(&me(), &ada(), "a new release").await.unwrap();
    assert_eq!(asked.standing(scene.engine.now()), WorkerStatus::Draining);
    let again =
        scene.engine.request_drain(&me(), &Initiator::new(Cause::User, "grace"), "me too").await.unwrap();
    assert_eq!(again, asked, "whoever asked first is remembered");

    let began = Instant::now();
    assert!(working.await.unwrap(), "all it had in hand is finished");
    assert!(began.elapsed() < HEARTBEAT_EVERY.std() + TAKES, "{:?}", began.elapsed());
    let left = scene.worker().await;
    assert_eq!((left.says, left.asked), (WorkerReport::Left { finished: true }, asked.asked));
    let record = scene.engine.store().load(&run).await.unwrap().unwrap();
    let ended = scene.engine.store().steps(&run).await.unwrap().len();
    assert_eq!((record.status, ended), (RunStatus::Running, 1), "the next step is for others");
    let late = scene.engine.request_drain(&me(), &ada(), "again").await.unwrap();
    assert_eq!(late, scene.worker().await, "there is nothing left to ask");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_finish_in_time_says_that_it_left_something_to_others() {
    let scene = Scene::set();
    scene.start(1).await;
    let settings = WorkerSettings { drain: Duration::from_secs(2), ..WorkerSettings::default() };
    let (leave, working) = scene.employ(settings);
    sleep(Duration::from_secs(1)).await;
    leave.ask();
    assert!(!working.await.unwrap());
    assert_eq!(scene.worker().await.says, WorkerReport::Left { finished: false });
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_is_missed_and_after_a_day_forgotten() {
    let scene = Scene::set();
    let (_leave, working) = scene.employ(WorkerSettings::default());
    sleep(Duration::from_secs(1)).await;
    working.abort();
    sleep(HEARTBEAT_EVERY.std() * 2).await;
    assert_eq!(scene.standing().await, WorkerStatus::Idle);
    sleep(OFFLINE_AFTER.std()).await;
    assert_eq!(scene.standing().await, WorkerStatus::Offline);
    assert_eq!(scene.engine.workers().await.unwrap().len(), 1);
    sleep(KEPT_FOR.std()).await;
    assert_eq!(scene.engine.workers().await.unwrap(), []);
    let gone = scene.engine.request_drain(&me(), &ada(), "a new release").await;
    assert!(matches!(gone, Err(EngineError::NoWorker { .. })), "{gone:?}");
}

/// What fails of a worker's signatures.
#[derive(Clone, Copy, PartialEq)]
enum WorkerRegistry {
    /// None is written.
    Down,
    /// All are written, and nobody is told.
    Deaf,
    /// There is never an answer.
    Silent,
}

impl Intercept for WorkerRegistry {
    type Pass = bool;

    async fn before(&self, site: &Site) -> Result<bool, StoreError> {
        let of_roll = site.name == "roll.put_worker";
        match self {
            Self::Down if of_roll => Err(StoreError::Busy { doing: "sign the roll" }),
            Self::Silent if of_roll => std::future::pending().await,
            _ => Ok(of_roll),
        }
    }

    async fn after(&self, of_roll: bool) -> Result<(), StoreError> {
        if of_roll && *self == Self::Deaf {
            return Err(StoreError::Unknown { doing: "sign the roll" });
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_sign_works_all_the_same_and_leaves_when_it_is_told() {
    for roll in [WorkerRegistry::Down, WorkerRegistry::Deaf, WorkerRegistry::Silent] {
        let scene = Scene::on(|store| Intercepted::new(store, roll));
        let run = scene.start(2).await;
        let (leave, working) = scene.employ(WorkerSettings::default());
        sleep(TAKES * 3).await;
        assert_eq!(scene.status(&run).await, RunStatus::Succeeded);
        leave.ask();
        assert!(timeout(Duration::from_secs(5), working).await.unwrap().unwrap());
        let told = scene.engine.store().registered_worker(&me()).await.unwrap();
        assert_eq!(told.is_some(), roll == WorkerRegistry::Deaf);
        if let Some(told) = told {
            assert_eq!(told.says, WorkerReport::Left { finished: true });
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_wish_is_heard_though_no_answer_to_a_signature_ever_arrives() {
    let scene = Scene::on(|store| Intercepted::new(store, WorkerRegistry::Deaf));
    let (_leave, working) = scene.employ(WorkerSettings::default());
    sleep(Duration::from_secs(1)).await;
    // Whoever asks is not told either, and finds its own mark when it asks again.
    scene.engine.request_drain(&me(), &ada(), "a new release").await.unwrap_err();
    let asked = scene.engine.request_drain(&me(), &ada(), "a new release").await.unwrap();
    assert_eq!(asked.asked.map(|asked| asked.reason).as_deref(), Some("a new release"));
    assert!(timeout(HEARTBEAT_EVERY.std() * 2, working).await.unwrap().unwrap());
    assert_eq!(scene.worker().await.says, WorkerReport::Left { finished: true });
}

#[tokio::test(start_paused = true)]
async fn what_was_said_to_an_earlier_worker_of_the_same_name_is_not_for_the_next() {
    let scene = Scene::set();
    let (_leave, first) = scene.employ(WorkerSettings::default());
    sleep(Duration::from_secs(1)).await;
    scene.engine.request_drain(&me(), &ada(), "a new release").await.unwrap();
    assert!(first.await.unwrap());
    let before = scene.worker().await;

    let (leave, second) = scene.employ(WorkerSettings::default());
    sleep(HEARTBEAT_EVERY.std() * 3).await;
    let now = scene.worker().await;
    assert_eq!((scene.standing().await, &now.asked), (WorkerStatus::Idle, &None));
    assert!(now.since > before.since && now.revision > before.revision);
    leave.ask();
    assert!(second.await.unwrap());
}

#[tokio::test]
async fn a_worker_of_no_roll_signs_none() {
    let store = Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap());
    let engine = Engine::new(Parts {
        store: Arc::clone(&store),
        tools: Toolbox::default(),
        clock: Arc::new(SystemClock),
        me: me(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    });
    let (leave, leaving) = leaving();
    leave.ask();
    let settings = WorkerSettings { sign_every: None, ..WorkerSettings::default() };
    assert!(Worker::new(Arc::new(engine), settings, me(), leaving).run().await);
    assert_eq!(store.roll().await.unwrap(), []);
}
