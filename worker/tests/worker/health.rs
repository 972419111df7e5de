//! A worker that receives messages but cannot write, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use countersign_worker::{CancellationToken, HealthStatus, Worker, WorkerSettings};
use domain::RunStatus;
use store::StoreError;
use testkit::{Fault, Faults, TestClock};
use tokio::time::sleep;

#[tokio::test(start_paused = true)]
async fn worker_that_cannot_write_is_unhealthy() {
    let read_only = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&read_only);
    let faults = Faults::at("ledger.commit", move || {
        let busy = StoreError::Busy { doing: "commit a decision" };
        if fails.load(Ordering::Relaxed) { Fault::Fail(busy) } else { Fault::None }
    });
    let env = testkit::engine().standard_tools().clock(TestClock::runtime()).env_with(faults);
    let mut runs = Vec::new();
    for key in ["k1", "k2", "k3", "k4"] {
        runs.push(env.start(testkit::TRANSFORM, key).await);
    }
    read_only.store(true, Ordering::Relaxed);
    let shutdown = CancellationToken::new();
    let settings = WorkerSettings { heartbeat_every: None, ..WorkerSettings::default() };
    let worker = Worker::new(Arc::clone(&env.engine), settings, "w".parse().unwrap(), shutdown.clone());
    let health = worker.health();
    let working = tokio::spawn(worker.run());

    sleep(Duration::from_mins(1)).await;
    let HealthStatus::Unhealthy(why) = health.status() else { panic!("the worker is reported healthy") };
    assert!(why.contains("the store fails every operation"), "{why}");

    read_only.store(false, Ordering::Relaxed);
    sleep(Duration::from_mins(3)).await;
    assert_eq!(health.status(), HealthStatus::Healthy);

    read_only.store(true, Ordering::Relaxed);
    for key in ["k5", "k6", "k7"] {
        runs.push(env.start(testkit::TRANSFORM, key).await);
    }
    sleep(Duration::from_secs(20)).await;
    assert!(matches!(health.status(), HealthStatus::Degraded(_)), "it has worked before");
    read_only.store(false, Ordering::Relaxed);
    sleep(Duration::from_mins(3)).await;
    assert_eq!(health.status(), HealthStatus::Healthy);
    for run in &runs {
        assert_eq!(env.status(run).await, RunStatus::Succeeded);
    }
    shutdown.cancel();
    assert!(working.await.unwrap());
}
