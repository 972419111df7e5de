//! A worker that receives messages but cannot write, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use connectors::{ConnectorSettings, HostAllowList};
use countersign_worker::{CancellationToken, HealthStatus, Worker, WorkerSettings};
use domain::{Cause, Initiator, RunKey, RunStatus};
use engine::{Engine, EngineParts, StartRun, Timing};
use serde_json::json;
use store::{Intercept, Intercepted, Ledger as _, SqliteOptions, SqliteStore, StoreCall, StoreError};
use support::Virtual;
use tokio::time::sleep;

/// A store that can be read and, while this is set, not written.
#[derive(Clone, Default)]
struct ReadOnly(Arc<AtomicBool>);

impl Intercept for ReadOnly {
    type State = ();

    async fn before(&self, site: &StoreCall) -> Result<(), StoreError> {
        if site.name == "ledger.commit" && self.0.load(Ordering::Relaxed) {
            return Err(StoreError::Busy { doing: "commit a decision" });
        }
        Ok(())
    }

    async fn after(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

type Store = Intercepted<SqliteStore, ReadOnly>;

async fn start(engine: &Engine<Store>, key: &str) -> RunKey {
    let names = engine.tools().names().cloned().collect();
    let source = "workflow: w\nversion: 1\nsteps: [{ id: a, tool: transform, with: { value: 1 } }]\n";
    let request = StartRun {
        tenant: "acme".parse().unwrap(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: key.parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::System, "test"),
    };
    engine.admission().start(request).await.unwrap().run
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_write_is_unhealthy() {
    let (clock, read_only) = (Arc::new(Virtual::begin()), ReadOnly::default());
    let options = SqliteOptions { clock: clock.clone(), ..SqliteOptions::default() };
    let store = Intercepted::new(SqliteStore::memory(options).unwrap(), read_only.clone());
    let engine = Arc::new(Engine::new(EngineParts {
        store: Arc::new(store),
        tools: connectors::standard_tools(HostAllowList::default(), ConnectorSettings::default()),
        clock,
        me: "w".parse().unwrap(),
        timing: Timing::default(),
        notifier: None,
        evidence_signer: None,
    }));
    let mut runs = Vec::new();
    for key in ["k1", "k2", "k3", "k4"] {
        runs.push(start(&engine, key).await);
    }
    read_only.0.store(true, Ordering::Relaxed);
    let shutdown = CancellationToken::new();
    let settings = WorkerSettings { heartbeat_every: None, ..WorkerSettings::default() };
    let worker = Worker::new(Arc::clone(&engine), settings, "w".parse().unwrap(), shutdown.clone());
    let health = worker.health();
    let working = tokio::spawn(worker.run());

    sleep(Duration::from_mins(1)).await;
    let HealthStatus::Unhealthy(why) = health.status() else { panic!("the worker is reported healthy") };
    assert!(why.contains("the store fails every operation"), "{why}");

    read_only.0.store(false, Ordering::Relaxed);
    sleep(Duration::from_mins(3)).await;
    assert_eq!(health.status(), HealthStatus::Healthy);
    for run in &runs {
        assert_eq!(engine.store().load(run).await.unwrap().unwrap().status, RunStatus::Succeeded);
    }
    shutdown.cancel();
    assert!(working.await.unwrap());
}
