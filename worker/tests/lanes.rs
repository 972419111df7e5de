//! Each queue has room of its own, on a store in memory.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use connectors::{Allow, Settings};
use countersign_worker::{Rooms, Worker, WorkerSettings, leaving};
use domain::{
    Cause, IdempotencyKey, Initiator, Job, Millis, Outgoing, QueueName, RunKey, RunStatus, TenantId,
    WorkerId, WorkspaceId,
};
use engine::{Engine, Parts, StartRun, Timing};
use serde_json::json;
use store::{Ledger as _, Queue as _, SqliteOptions, SqliteStore, SystemClock};

fn me() -> WorkerId {
    WorkerId::new("test").unwrap()
}

fn engine() -> Engine<SqliteStore> {
    Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: connectors::standard(Allow { hosts: vec!["127.0.0.1".parse().unwrap()] }, Settings::default()),
        clock: Arc::new(SystemClock),
        me: me(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

async fn start(engine: &Engine<SqliteStore>) -> RunKey {
    begun(engine, "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n", "1")
        .await
}

/// Waits until `run` stands at `status`.
async fn stands(store: &SqliteStore, run: &RunKey, status: RunStatus) {
    let stands = async {
        while store.load(run).await.unwrap().unwrap().status != status {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), stands).await.unwrap();
}

async fn begun(engine: &Engine<SqliteStore>, source: &str, key: &str) -> RunKey {
    let names = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: TenantId::new("acme").unwrap(),
        workspace: WorkspaceId::new("main").unwrap(),
        plan: workflow::parse(source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: IdempotencyKey::new(&format!("test:{key}")).unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::System, "test"),
    };
    engine.start(wish).await.unwrap().run
}

#[tokio::test]
async fn what_people_decided_is_walked_while_there_is_no_room_for_steps() {
    let engine = Arc::new(engine());
    let run = start(&engine).await;
    let store = Arc::clone(&engine);
    let store = store.store();
    let decided =
        Outgoing { run: run.clone(), queue: QueueName::Decisions, job: Job::Advance, delay: Millis(0) };
    store.send(&decided).await.unwrap();
    let full =
        WorkerSettings { rooms: Rooms { ingest: 1, decisions: 1, steps: 0 }, ..WorkerSettings::default() };
    let (leave, leaving) = leaving();
    let working = tokio::spawn(Worker::new(Arc::clone(&engine), full, me(), leaving).run());

    stands(store, &run, RunStatus::Succeeded).await;

    // What was there from the start, and what asks for the evidence.
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 2);
    leave.ask();
    assert!(working.await.unwrap());
    assert_eq!(store.depth(QueueName::Decisions).await.unwrap(), 0);
}

#[tokio::test]
async fn what_people_decided_is_not_behind_a_step_that_lasts() {
    let engine = Arc::new(engine());
    // Takes what is sent, and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let lasts = format!(
        "workflow: lasts\nversion: 1\nenvironment: dev\n\
         steps: [{{ id: a, tool: http.request, with: {{ method: GET, url: 'http://{}/', timeout: 1m }} }}]\n",
        silent.local_addr().unwrap()
    );
    let short = "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n";
    let (lasting, short) = (begun(&engine, &lasts, "1").await, begun(&engine, short, "2").await);
    let rooms = Rooms { ingest: 1, decisions: 1, steps: 1 };
    let settings = WorkerSettings { rooms, drain: Duration::ZERO, ..WorkerSettings::default() };
    let store = Arc::clone(engine.store());
    let decided = |run: &RunKey| {
        let job = Job::Advance;
        Outgoing { run: run.clone(), queue: QueueName::Decisions, job, delay: Millis(0) }
    };
    // What brought them here is not in the way: one place for steps is all there is.
    for message in store.receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap() {
        store.delete(&message.handle).await.unwrap();
    }
    store.send(&decided(&lasting)).await.unwrap();
    let (leave, leaving) = leaving();
    let working = tokio::spawn(Worker::new(Arc::clone(&engine), settings, me(), leaving).run());
    stands(&store, &lasting, RunStatus::Running).await;

    store.send(&decided(&short)).await.unwrap();
    stands(&store, &short, RunStatus::Succeeded).await;

    assert_eq!(store.load(&lasting).await.unwrap().unwrap().status, RunStatus::Running);
    leave.ask();
    assert!(!working.await.unwrap(), "the one that lasts is left");
}

#[test]
fn every_lane_has_room_beside_any_number_of_steps() {
    for steps in [1, 4, 16, 64] {
        let rooms = Rooms::beside(steps);
        assert_eq!(rooms.steps, steps);
        assert!(rooms.ingest > 0 && rooms.decisions > 0);
    }
}
