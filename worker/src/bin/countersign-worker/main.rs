//! The worker as an ECS service, configured by environment variables.
//!
//! `countersign-worker` runs until SIGTERM, or until it is asked to drain through the registry. It then finishes the
//! steps in progress and renews their leases meanwhile. `countersign-worker health URL` queries a worker and exits
//! with 0 or 1: the image contains no other program that could.

mod environment;
mod health;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use connectors::HostAllowList;
use countersign_worker::{CancellationToken, Worker, WorkerSettings};
use domain::{Millis, WorkerId};
use engine::metrics::exporter::Meter;
use engine::{Engine, EngineParts, Timing};
use store::SystemClock;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use environment::Environment;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The lease of a step. With the delay of its message, a dead worker's step is taken over within half a minute.
const LEASE: Millis = Millis::secs(20);

/// Three renewals are tried before the lease expires.
const RENEW_EVERY: Millis = Millis::secs(5);

/// The sweep function runs once a minute as well.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// A message that becomes visible again is received by the next poll, so polls are short enough for a take-over
/// within half a minute. Three queues polled this often cost about fifty cents a month.
const POLL: Duration = Duration::from_secs(5);

/// Faster than the allocator of libc for many small objects on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let done = match (args.next().as_deref(), args.next()) {
        (Some("health"), Some(url)) => health::ask(&url).await,
        (None, _) => Box::pin(work()).await,
        _ => Err("usage: countersign-worker [health URL]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("countersign-worker: {}", engine::error_chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn work() -> Result<(), Failure> {
    let environment = Environment::read()?;
    let filter = EnvFilter::new(environment.log.as_deref().unwrap_or("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).init();
    let me = WorkerId::new(&format!("worker-{}", environment.chance))?;
    let outside = environment.outside().await?;
    let store = store::aws::open(environment.store.clone()).await;
    let engine = Engine::new(EngineParts {
        store: Arc::new(store),
        tools: connectors::standard_tools(HostAllowList::default(), outside.settings),
        clock: Arc::new(SystemClock),
        me: me.clone(),
        timing: Timing { lease: LEASE, renew_every: RENEW_EVERY, ..Timing::default() },
        notifier: outside.notifier,
        evidence_signer: Some(outside.evidence_signer),
    });
    engine.operations().record_format().await?;
    let settings = WorkerSettings {
        concurrency: environment.concurrency,
        visibility: LEASE,
        poll: POLL,
        sweep_every: SWEEP_EVERY,
        drain: environment.drain,
        ..WorkerSettings::default()
    };
    let shutdown = CancellationToken::new();
    let worker = Worker::new(Arc::new(engine), settings, me.clone(), shutdown.clone());
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let serving = health::serve(environment.health, worker.health()).await?;
    let _counted = match environment.metrics {
        Some(address) => Some(Meter::start()?.serve(TcpListener::bind(address).await?)?),
        None => None,
    };
    tracing::info!(event = "worker_started", worker = %me, health = %serving.address(), "worker started");
    let working = worker.run();
    tokio::pin!(working);
    let finished = tokio::select! {
        // It was asked to drain through the registry.
        finished = &mut working => finished,
        _ = terminate.recv() => { shutdown.cancel(); working.await }
        _ = interrupt.recv() => { shutdown.cancel(); working.await }
    };
    if finished {
        tracing::info!(event = "worker_stopped", drained = true, "worker stopped");
    } else {
        tracing::warn!(event = "worker_stopped", drained = false, "worker stopped with steps in progress");
    }
    Ok(())
}
