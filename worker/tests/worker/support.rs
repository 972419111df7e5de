//! Workers in virtual time.

use std::sync::Arc;
use std::time::Duration;

use countersign_worker::{CancellationToken, Worker, WorkerSettings};
use engine::Engine;
use store::Store;
use tokio::task::JoinHandle;

pub(crate) fn start_worker<S: Store>(
    engine: &Arc<Engine<S>>,
    settings: WorkerSettings,
) -> (CancellationToken, JoinHandle<bool>) {
    let shutdown = CancellationToken::new();
    let worker = Worker::new(Arc::clone(engine), settings, "w".parse().unwrap(), shutdown.clone());
    (shutdown, tokio::spawn(worker.run()))
}

/// Runs a worker for this long; returns whether it finished its jobs.
pub(crate) async fn run_worker<S: Store>(engine: &Arc<Engine<S>>, length: Duration) -> bool {
    let (shutdown, working) = start_worker(engine, WorkerSettings::default());
    tokio::time::sleep(length).await;
    shutdown.cancel();
    working.await.unwrap()
}
