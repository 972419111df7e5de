//! The worker as a service: on AWS, told everything by its environment.
//!
//! `countersign-worker` works until SIGTERM, or until it is asked to leave through the roll, then finishes the steps under way and keeps their leases alive while it
//! does. `countersign-worker health URL` asks a worker how it is and exits 0 or 1: the image holds no other program
//! that could.

mod environment;
mod health;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use connectors::Allow;
use countersign_worker::{Worker, WorkerSettings, leaving};
use domain::{Millis, WorkerId};
use engine::metrics::exporter::Meter;
use engine::{Engine, Parts, Timing};
use store::SystemClock;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use environment::Environment;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long a step is held without a sign of life. With the wait for its message, a dead worker's step is taken
/// over within half a minute.
const LEASE: Millis = Millis::secs(20);

/// Three signs of life may be lost before anybody takes over.
const HEARTBEAT: Millis = Millis::secs(5);

/// The schedule sweeps too; a fleet need not.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// A message that is visible again may be seen only by the next poll, so polls are short enough for a take-over
/// within half a minute. Three queues asked this often cost some fifty cents a month.
const POLL: Duration = Duration::from_secs(5);

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
            eprintln!("countersign-worker: {}", engine::told(error.as_ref()));
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
    let engine = Engine::new(Parts {
        store: Arc::new(store),
        tools: connectors::standard(Allow::default(), outside.settings),
        clock: Arc::new(SystemClock),
        me: me.clone(),
        timing: Timing { lease: LEASE, heartbeat: HEARTBEAT, ..Timing::default() },
        shows: outside.shows,
        sealing: Some(outside.sealing),
    });
    let settings = WorkerSettings {
        rooms: environment.rooms,
        visibility: LEASE,
        poll: POLL,
        sweep_every: SWEEP_EVERY,
        drain: environment.drain,
        ..WorkerSettings::default()
    };
    let (leave, heard) = leaving();
    let worker = Worker::new(Arc::new(engine), settings, me.clone(), heard);
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let serving = health::serve(environment.health, worker.health()).await?;
    let _counted = match environment.metrics {
        Some(address) => Some(Meter::start()?.serve(TcpListener::bind(address).await?)?),
        None => None,
    };
    tracing::info!(worker = %me, health = %serving.address(), "started");
    let working = worker.run();
    tokio::pin!(working);
    let finished = tokio::select! {
        // Somebody has asked it through the roll.
        finished = &mut working => finished,
        _ = terminate.recv() => { leave.ask(); working.await }
        _ = interrupt.recv() => { leave.ask(); working.await }
    };
    if finished {
        tracing::info!("left; every step under way was finished");
    } else {
        tracing::warn!("left; steps that were not finished are taken over when their leases run out");
    }
    Ok(())
}
