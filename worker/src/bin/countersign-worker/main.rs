//! The worker as an ECS service, configured by environment variables.
//!
//! `countersign-worker` runs until SIGTERM, or until it is asked to drain through the registry. It then finishes the
//! steps in progress and renews their leases meanwhile. `countersign-worker health URL` queries a worker and exits
//! with 0 or 1: the image contains no other program that could.

mod environment;
mod health;
mod timers;

use std::process::ExitCode;
use std::sync::Arc;

use connectors::HostAllowList;
use countersign_worker::{CancellationToken, Worker, WorkerSettings};
use domain::WorkerId;
use engine::metrics::exporter::Meter;
use engine::{Engine, EngineParts, Timing};
use store::SystemClock;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use environment::Environment;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Faster than the allocator of libc for many small objects on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A commit to DynamoDB is many calls deep. In a debug build it needs more than the two megabytes of the default.
const STACK_BYTES: usize = 8 * 1024 * 1024;

fn main() -> ExitCode {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    match runtime {
        Ok(runtime) => runtime.block_on(Box::pin(run())),
        Err(error) => {
            eprintln!("countersign-worker: cannot start the runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let done = match (args.next().as_deref(), args.next()) {
        (Some("health"), Some(url)) => health::query(&url).await,
        (None, _) => Box::pin(run_worker()).await,
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

async fn run_worker() -> Result<(), Failure> {
    let environment = Environment::read()?;
    let filter = EnvFilter::new(environment.log.as_deref().unwrap_or("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).init();
    let me = WorkerId::new(&format!("worker-{}", environment.random_suffix))?;
    // Secrets of steps are in the memory of this process.
    if let Err(error) = credentials::exclude_from_core_dumps() {
        tracing::warn!(event = "core_dumps_not_disabled", %error, "core dumps are not disabled");
    }
    let systems = environment.connect().await?;
    let timers = environment.timers;
    let store = store::aws::open(environment.store.clone()).await;
    let engine = Engine::new(EngineParts {
        store: Arc::new(store),
        tools: connectors::standard_tools(HostAllowList::default()),
        connections: systems.connections,
        clock: Arc::new(SystemClock),
        me: me.clone(),
        timing: Timing { lease: timers.lease, renew_every: timers.renew_every, ..Timing::default() },
        notifier: systems.notifier,
        evidence_signer: Some(systems.evidence_signer),
    });
    engine.operations().register_record_format().await?;
    let settings = WorkerSettings {
        concurrency: environment.concurrency,
        visibility: timers.lease,
        poll: timers.poll.std(),
        sweep_every: timers.sweep_every.std(),
        drain: environment.drain,
        ..WorkerSettings::default()
    };
    let shutdown = CancellationToken::new();
    let worker = Worker::new(Arc::new(engine), settings, me.clone(), shutdown.clone());
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let health_server = health::serve(environment.health, worker.health()).await?;
    let _metrics_server = match environment.metrics {
        Some(address) => Some(Meter::start()?.serve(TcpListener::bind(address).await?)?),
        None => None,
    };
    tracing::info!(event = "worker_started", worker = %me, health = %health_server.address(), "worker started");
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
