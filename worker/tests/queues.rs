//! Each queue has its own capacity, on an in-memory store.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use connectors::{ConnectorSettings, HostAllowList};
use countersign_worker::{CancellationToken, Concurrency, Worker, WorkerSettings};
use domain::{
    Cause, IdempotencyKey, Initiator, Job, Millis, Outgoing, QueueName, RunKey, RunStatus, TenantId,
    WorkerId, WorkspaceId,
};
use engine::{Engine, EngineParts, StartRun, Timing};
use serde_json::json;
use store::{Ledger as _, Queue as _, SqliteOptions, SqliteStore, SystemClock};

fn me() -> WorkerId {
    WorkerId::new("test").unwrap()
}

fn engine() -> Engine<SqliteStore> {
    Engine::new(EngineParts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: connectors::standard_tools(
            HostAllowList { hosts: vec!["127.0.0.1".parse().unwrap()] },
            ConnectorSettings::default(),
        ),
        clock: Arc::new(SystemClock),
        me: me(),
        timing: Timing::default(),
        notifier: None,
        evidence_signer: None,
    })
}

async fn start(engine: &Engine<SqliteStore>) -> RunKey {
    begun(engine, "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n", "1")
        .await
}

/// Waits until `run` has this status.
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
    let request = StartRun {
        tenant: TenantId::new("acme").unwrap(),
        workspace: WorkspaceId::new("main").unwrap(),
        plan: workflow::parse(source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: IdempotencyKey::new(&format!("test:{key}")).unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::System, "test"),
    };
    engine.admission().start(request).await.unwrap().run
}

#[tokio::test]
async fn decisions_advance_while_the_steps_queue_is_full() {
    let engine = Arc::new(engine());
    let run = start(&engine).await;
    let store = Arc::clone(&engine);
    let store = store.store();
    let decided =
        Outgoing { run: run.clone(), queue: QueueName::Decisions, job: Job::Advance, delay: Millis(0) };
    store.send(&decided).await.unwrap();
    let full = WorkerSettings {
        concurrency: Concurrency { ingest: 1, decisions: 1, steps: 0 },
        ..WorkerSettings::default()
    };
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(Worker::new(Arc::clone(&engine), full, me(), shutdown.clone()).run());

    stands(store, &run, RunStatus::Succeeded).await;

    // The message from the start, and the one for the evidence.
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 2);
    shutdown.cancel();
    assert!(working.await.unwrap());
    assert_eq!(store.depth(QueueName::Decisions).await.unwrap(), 0);
}

#[tokio::test]
async fn decisions_do_not_wait_behind_a_long_step() {
    let engine = Arc::new(engine());
    // Accepts a connection and never replies.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let lasts = format!(
        "workflow: lasts\nversion: 1\nenvironment: dev\n\
         steps: [{{ id: a, tool: http.request, with: {{ method: GET, url: 'http://{}/', timeout: 1m }} }}]\n",
        silent.local_addr().unwrap()
    );
    let short = "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n";
    let (lasting, short) = (begun(&engine, &lasts, "1").await, begun(&engine, short, "2").await);
    let concurrency = Concurrency { ingest: 1, decisions: 1, steps: 1 };
    let settings = WorkerSettings { concurrency, drain: Duration::ZERO, ..WorkerSettings::default() };
    let store = Arc::clone(engine.store());
    let decided = |run: &RunKey| {
        let job = Job::Advance;
        Outgoing { run: run.clone(), queue: QueueName::Decisions, job, delay: Millis(0) }
    };
    // Remove the messages that started the runs: there is capacity for one step only.
    for message in store.receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap() {
        store.delete(&message.handle).await.unwrap();
    }
    store.send(&decided(&lasting)).await.unwrap();
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(Worker::new(Arc::clone(&engine), settings, me(), shutdown.clone()).run());
    stands(&store, &lasting, RunStatus::Running).await;

    store.send(&decided(&short)).await.unwrap();
    stands(&store, &short, RunStatus::Succeeded).await;

    assert_eq!(store.load(&lasting).await.unwrap().unwrap().status, RunStatus::Running);
    shutdown.cancel();
    assert!(!working.await.unwrap(), "the one that lasts is left");
}

#[test]
fn every_queue_has_capacity() {
    for steps in [1, 4, 16, 64] {
        let concurrency = Concurrency::for_steps(steps);
        assert_eq!(concurrency.steps, steps);
        assert!(concurrency.ingest > 0 && concurrency.decisions > 0);
    }
}
