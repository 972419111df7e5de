//! Each queue has its own capacity, on an in-memory store.

use std::sync::Arc;
use std::time::Duration;

use countersign_worker::{CancellationToken, Concurrency, Worker, WorkerSettings};
use domain::{Job, Millis, Outgoing, QueueName, RunKey, RunStatus, WorkerId};
use store::{Ledger as _, Queue as _, SqliteStore};
use testkit::{HttpStub, TRANSFORM, eventually};

fn me() -> WorkerId {
    WorkerId::new("test").unwrap()
}

/// Waits until `run` has this status.
async fn assert_status(store: &SqliteStore, run: &RunKey, status: RunStatus) {
    eventually(async || store.load(run).await.unwrap().unwrap().status == status).await;
}

#[tokio::test]
async fn decisions_advance_while_the_steps_queue_is_full() {
    let env = testkit::engine().standard_tools().env();
    let run = env.start(TRANSFORM, "1").await;
    let store = env.store();
    let message =
        Outgoing { run: run.clone(), queue: QueueName::Decisions, job: Job::Advance, delay: Millis(0) };
    store.send(&message).await.unwrap();
    let full = WorkerSettings {
        concurrency: Concurrency { ingest: 1, decisions: 1, steps: 0 },
        ..WorkerSettings::default()
    };
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(Worker::new(Arc::clone(&env.engine), full, me(), shutdown.clone()).run());

    assert_status(store, &run, RunStatus::Succeeded).await;

    // The message from the start, and the one for the evidence.
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 2);
    shutdown.cancel();
    assert!(working.await.unwrap());
    assert_eq!(store.depth(QueueName::Decisions).await.unwrap(), 0);
}

#[tokio::test]
async fn decisions_do_not_wait_behind_a_long_step() {
    let env = testkit::engine().local_tools().env();
    let silent = HttpStub::silent();
    let long_source = format!(
        "workflow: long\nversion: 1\nenvironment: dev\n\
         steps: [{{ id: a, tool: http.request, with: {{ method: GET, url: '{}', timeout: 1m }} }}]\n",
        silent.url("/")
    );
    let (long, short) = (env.start(&long_source, "1").await, env.start(TRANSFORM, "2").await);
    let concurrency = Concurrency { ingest: 1, decisions: 1, steps: 1 };
    let settings = WorkerSettings { concurrency, drain: Duration::ZERO, ..WorkerSettings::default() };
    let store = env.store();
    let decision_message = |run: &RunKey| {
        let job = Job::Advance;
        Outgoing { run: run.clone(), queue: QueueName::Decisions, job, delay: Millis(0) }
    };
    // Remove the messages that started the runs: there is capacity for one step only.
    for message in store.receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap() {
        store.delete(&message.handle).await.unwrap();
    }
    store.send(&decision_message(&long)).await.unwrap();
    let shutdown = CancellationToken::new();
    let working = tokio::spawn(Worker::new(Arc::clone(&env.engine), settings, me(), shutdown.clone()).run());
    assert_status(store, &long, RunStatus::Running).await;

    store.send(&decision_message(&short)).await.unwrap();
    assert_status(store, &short, RunStatus::Succeeded).await;

    assert_eq!(store.load(&long).await.unwrap().unwrap().status, RunStatus::Running);
    shutdown.cancel();
    assert!(!working.await.unwrap(), "the long step is abandoned");
}

#[test]
fn every_queue_has_capacity() {
    for steps in [1, 4, 16, 64] {
        let concurrency = Concurrency::for_steps(steps);
        assert_eq!(concurrency.steps, steps);
        assert!(concurrency.ingest > 0 && concurrency.decisions > 0);
    }
}
