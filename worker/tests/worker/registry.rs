//! The worker registry with real workers, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use countersign_worker::{CancellationToken, Worker, WorkerSettings};
use domain::worker_registry::{HEARTBEAT_EVERY, OFFLINE_AFTER, RECORD_TTL};
use domain::{
    Action, Cause, Failure, Initiator, RunKey, RunStatus, ToolName, WorkerId, WorkerRecord, WorkerReport,
    WorkerStatus,
};
use engine::EngineError;
use store::{Ledger as _, Store, StoreError, WorkerRegistry as _};
use testkit::{EngineBuilder, Fault, Faults, TestClock, TestEnv, ada};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::support;

/// A tool that takes a while and changes nothing.
struct Slow;

const CALL_DURATION: Duration = Duration::from_secs(20);

#[async_trait]
impl Tool for Slow {
    fn name(&self) -> ToolName {
        "test.slow".parse().unwrap()
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        Ok(testkit::action(self.name(), ask))
    }

    async fn perform(&self, _call: ToolCall<'_>) -> ToolOutcome {
        sleep(CALL_DURATION).await;
        ToolOutcome::Done(ToolResult::default())
    }
}

fn me() -> WorkerId {
    "w".parse().unwrap()
}

fn builder() -> EngineBuilder {
    testkit::engine().tool(Slow).clock(TestClock::runtime())
}

async fn start<S: Store>(env: &TestEnv<S>, steps: u32) -> RunKey {
    let steps = (0..steps).map(|n| format!("  - {{ id: s{n}, tool: test.slow }}\n"));
    env.start(&format!("workflow: w\nversion: 1\nsteps:\n{}", steps.collect::<String>()), "k").await
}

fn start_worker<S: Store>(env: &TestEnv<S>) -> (CancellationToken, JoinHandle<bool>) {
    support::start_worker(&env.engine, WorkerSettings::default())
}

async fn worker<S: Store>(env: &TestEnv<S>) -> WorkerRecord {
    env.engine.operations().worker(&me()).await.unwrap()
}

async fn worker_status<S: Store>(env: &TestEnv<S>) -> WorkerStatus {
    worker(env).await.status(env.engine.now())
}

#[tokio::test(start_paused = true)]
async fn worker_reports_its_work_and_its_stop() {
    let env = builder().env();
    let (shutdown, working) = start_worker(&env);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(worker_status(&env).await, WorkerStatus::Idle);
    let run = start(&env, 1).await;
    sleep(HEARTBEAT_EVERY.std()).await;
    assert_eq!(worker(&env).await.report, WorkerReport::Working { in_flight: 1 });
    assert_eq!(worker_status(&env).await, WorkerStatus::Executing);

    shutdown.cancel();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(worker(&env).await.report, WorkerReport::Draining { in_flight: 1 }, "at once");
    assert!(working.await.unwrap());
    assert_eq!(worker(&env).await.report, WorkerReport::Stopped { drained: true });
    assert_eq!(env.status(&run).await, RunStatus::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn drain_request_lets_the_running_step_finish() {
    let env = builder().env();
    let run = start(&env, 3).await;
    let (_shutdown, working) = start_worker(&env);
    sleep(Duration::from_secs(1)).await;
    let requested = env.engine.operations().request_drain(&me(), &ada(), "a new release").await.unwrap();
    assert_eq!(requested.status(env.engine.now()), WorkerStatus::Draining);
    let again = env
        .engine
        .operations()
        .request_drain(&me(), &Initiator::new(Cause::User, "grace"), "me too")
        .await
        .unwrap();
    assert_eq!(again, requested, "the first request is kept");

    let started = Instant::now();
    assert!(working.await.unwrap(), "all its jobs finished");
    assert!(started.elapsed() < HEARTBEAT_EVERY.std() + CALL_DURATION, "{:?}", started.elapsed());
    let stopped = worker(&env).await;
    assert_eq!(
        (stopped.report, stopped.drain_request),
        (WorkerReport::Stopped { drained: true }, requested.drain_request)
    );
    let record = env.record(&run).await;
    let ended = env.store().steps(&run).await.unwrap().len();
    assert_eq!((record.status, ended), (RunStatus::Running, 1), "the next step is for others");
    let late = env.engine.operations().request_drain(&me(), &ada(), "again").await.unwrap();
    assert_eq!(late, worker(&env).await, "a stopped worker is not asked");
}

#[tokio::test(start_paused = true)]
async fn worker_that_runs_out_of_time_reports_it() {
    let env = builder().env();
    start(&env, 1).await;
    let settings = WorkerSettings { drain: Duration::from_secs(2), ..WorkerSettings::default() };
    let (shutdown, working) = support::start_worker(&env.engine, settings);
    sleep(Duration::from_secs(1)).await;
    shutdown.cancel();
    assert!(!working.await.unwrap());
    assert_eq!(worker(&env).await.report, WorkerReport::Stopped { drained: false });
}

#[tokio::test(start_paused = true)]
async fn dead_worker_shows_as_offline_for_a_day() {
    let env = builder().env();
    let (_shutdown, working) = start_worker(&env);
    sleep(Duration::from_secs(1)).await;
    working.abort();
    sleep(HEARTBEAT_EVERY.std() * 2).await;
    assert_eq!(worker_status(&env).await, WorkerStatus::Idle);
    sleep(OFFLINE_AFTER.std()).await;
    assert_eq!(worker_status(&env).await, WorkerStatus::Offline);
    assert_eq!(env.engine.operations().workers().await.unwrap().len(), 1);
    sleep(RECORD_TTL.std()).await;
    assert_eq!(env.engine.operations().workers().await.unwrap(), []);
    let gone = env.engine.operations().request_drain(&me(), &ada(), "a new release").await;
    assert!(matches!(gone, Err(EngineError::NoWorker { .. })), "{gone:?}");
}

/// How heartbeats fail.
#[derive(Clone, Copy, PartialEq)]
enum RegistryFault {
    /// None is written.
    Down,
    /// All are written, and the replies are lost.
    LostReply,
    /// No reply ever arrives.
    NoReply,
}

impl RegistryFault {
    fn faults(self) -> Faults {
        let doing = "write a worker record";
        // A heartbeat is a write of its own; a request to drain is written with its audit entry.
        Faults::new(move |call| match self {
            _ if !["worker_registry.put_worker", "audit_log.write_audited"].contains(&call.name) => {
                Fault::None
            }
            Self::Down => Fault::Fail(StoreError::Busy { doing }),
            Self::LostReply => Fault::LoseReply,
            Self::NoReply => Fault::Hang,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn worker_without_heartbeat_still_works_and_drains() {
    for fault in [RegistryFault::Down, RegistryFault::LostReply, RegistryFault::NoReply] {
        let env = builder().env_with(fault.faults());
        let run = start(&env, 2).await;
        let (shutdown, working) = start_worker(&env);
        sleep(CALL_DURATION * 3).await;
        assert_eq!(env.status(&run).await, RunStatus::Succeeded);
        shutdown.cancel();
        assert!(timeout(Duration::from_secs(5), working).await.unwrap().unwrap());
        let stored = env.store().worker(&me()).await.unwrap();
        assert_eq!(stored.is_some(), fault == RegistryFault::LostReply);
        if let Some(stored) = stored {
            assert_eq!(stored.report, WorkerReport::Stopped { drained: true });
        }
    }
}

#[tokio::test(start_paused = true)]
async fn drain_request_is_seen_despite_lost_replies() {
    let env = builder().env_with(RegistryFault::LostReply.faults());
    let (_shutdown, working) = start_worker(&env);
    sleep(Duration::from_secs(1)).await;
    // The caller's own reply is lost, too. It finds its own request when it asks again.
    env.engine.operations().request_drain(&me(), &ada(), "a new release").await.unwrap_err();
    let requested = env.engine.operations().request_drain(&me(), &ada(), "a new release").await.unwrap();
    assert_eq!(requested.drain_request.map(|request| request.reason).as_deref(), Some("a new release"));
    assert!(timeout(HEARTBEAT_EVERY.std() * 2, working).await.unwrap().unwrap());
    assert_eq!(worker(&env).await.report, WorkerReport::Stopped { drained: true });
}

#[tokio::test(start_paused = true)]
async fn drain_request_does_not_apply_to_the_next_process() {
    let env = builder().env();
    let (_shutdown, first) = start_worker(&env);
    sleep(Duration::from_secs(1)).await;
    env.engine.operations().request_drain(&me(), &ada(), "a new release").await.unwrap();
    assert!(first.await.unwrap());
    let before = worker(&env).await;

    let (shutdown, second) = start_worker(&env);
    sleep(HEARTBEAT_EVERY.std() * 3).await;
    let now = worker(&env).await;
    assert_eq!((worker_status(&env).await, &now.drain_request), (WorkerStatus::Idle, &None));
    assert!(now.started_at > before.started_at && now.revision > before.revision);
    shutdown.cancel();
    assert!(second.await.unwrap());
}

#[tokio::test]
async fn unregistered_worker_writes_no_heartbeat() {
    let store = testkit::memory();
    let engine = testkit::engine().on(store.clone());
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    let settings = WorkerSettings { heartbeat_every: None, ..WorkerSettings::default() };
    assert!(Worker::new(Arc::new(engine), settings, me(), shutdown.clone()).run().await);
    assert_eq!(store.workers().await.unwrap(), []);
}

/// Workers with the ids `names`, and the number of sweeps so far.
fn fleet(names: &[&str]) -> (Vec<(CancellationToken, JoinHandle<bool>)>, Arc<AtomicU32>) {
    let sweeps = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&sweeps);
    let faults = Faults::at("ledger.due_excluding", move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Fault::None
    });
    let env = builder().env_with(faults);
    let workers = names.iter().map(|name| {
        let shutdown = CancellationToken::new();
        let worker = Worker::new(
            Arc::clone(&env.engine),
            WorkerSettings::default(),
            name.parse().unwrap(),
            shutdown.clone(),
        );
        (shutdown, tokio::spawn(worker.run()))
    });
    (workers.collect(), sweeps)
}

#[tokio::test(start_paused = true)]
async fn one_worker_of_a_fleet_sweeps() {
    let names: Vec<String> = (0..16).map(|number| format!("w-{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (one, by_one) = fleet(&names[..1]);
    let (workers, by_all) = fleet(&names);
    sleep(Duration::from_mins(10)).await;
    let (alone, together) = (by_one.load(Ordering::Relaxed), by_all.load(Ordering::Relaxed));
    assert!((110..=120).contains(&alone), "{alone} in ten minutes, one every five seconds");
    assert!(together < alone * 3, "{together} sweeps of 16 workers, {alone} of one");

    // The sweeper dies. The next one takes over after three missed heartbeats.
    workers[0].1.abort();
    sleep(OFFLINE_AFTER.std() + HEARTBEAT_EVERY.std()).await;
    by_all.store(0, Ordering::Relaxed);
    sleep(Duration::from_mins(10)).await;
    let together = by_all.load(Ordering::Relaxed);
    assert!((110..360).contains(&together), "{together} sweeps of 15 workers");
    drop(one);
}

#[tokio::test(start_paused = true)]
async fn worker_without_the_registry_sweeps() {
    let sweeps = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&sweeps);
    let faults = Faults::new(move |call| match call.name {
        "ledger.due_excluding" => {
            counted.fetch_add(1, Ordering::Relaxed);
            Fault::None
        }
        "worker_registry.workers" => Fault::Fail(StoreError::Busy { doing: "list the workers" }),
        _ => Fault::None,
    });
    let env = builder().env_with(faults);
    for name in ["a", "b"] {
        let worker = Worker::new(
            Arc::clone(&env.engine),
            WorkerSettings::default(),
            name.parse().unwrap(),
            CancellationToken::new(),
        );
        tokio::spawn(worker.run());
    }
    sleep(Duration::from_mins(1)).await;
    assert!(sweeps.load(Ordering::Relaxed) >= 20);
}
