//! `countersign worker`: works on runs until it is asked to leave.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;

use ::worker::{Rooms, Worker, WorkerSettings, leaving};
use connectors::{Allow, HostRule, Settings};
use domain::{Millis, WorkerId};
use engine::{Engine, Parts, Sealing, Showing, Timing};
use store::{Intercepted, SqliteStore, Store, SystemClock};

use crate::config;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::metrics::Metrics;
use crate::{keys, logging, random};

use super::crash::{CrashAt, CrashPoint};
use super::stop::Stop;

/// How a worker works.
#[derive(Debug, clap::Args)]
pub(crate) struct Work {
    /// How many runs are worked on at once; beside them there is room for a quarter as many that people just
    /// decided about, so that these never wait
    #[arg(long, value_name = "N", default_value = "16")]
    concurrency: NonZeroU16,
    /// For how long a step is held without a sign of life before another worker may take it over
    #[arg(long, value_name = "LENGTH", default_value = "30s")]
    lease: Millis,
    /// How often a sign of life is given [default: a third of the lease]
    #[arg(long, value_name = "LENGTH")]
    heartbeat: Option<Millis>,
    /// A host inside your network that `http.request` may call; may be given several times
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_host: Vec<HostRule>,
    /// The systems outside: where they are, and which variables hold their credentials
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How long the steps under way may take to finish after SIGTERM or `worker drain`
    #[arg(long, value_name = "LENGTH", default_value = "25s")]
    drain: Millis,
    /// Leave when no run is left that can move by itself
    #[arg(long)]
    until_idle: bool,
    /// What the worker is called in the chain of events; a random part is added
    #[arg(long, value_name = "NAME", default_value = "worker")]
    name: WorkerId,
    #[command(flatten)]
    metrics: Metrics,
    /// Log JSON instead of text
    #[arg(long)]
    log_json: bool,
    /// For tests of this program: the process kills itself at its N-th call to the store, counted from 0
    #[arg(long, value_name = "N[:before|:after]", hide = true)]
    crash_at: Option<CrashPoint>,
}

/// Works until it is asked to leave.
pub(super) async fn run(args: Work, context: &Context) -> Result<Ending, CliError> {
    let timing = timing(args.lease, args.heartbeat)?;
    let me = WorkerId::new(&format!("{}-{}", args.name, random::hex::<4>()?))?;
    logging::start(context.surroundings.log.as_deref(), args.log_json)?;
    let _metrics = args.metrics.start().await?;
    let store = context.open_store()?;
    let outside = Outside::read(&args, context)?;
    // Looking whether there is anything left must not shift the count of the calls that work makes.
    let beside = store.clone();
    tracing::info!(worker = %me, store = %context.store.display(), concurrency = args.concurrency, "started");
    let finished = match args.crash_at {
        None => Box::pin(work(&args, store, (timing, me, outside), beside)).await?,
        Some(point) => {
            let store = Intercepted::new(store, CrashAt::new(point));
            Box::pin(work(&args, store, (timing, me, outside), beside)).await?
        }
    };
    Ok(Ending::done_if(finished))
}

/// What a worker has beside the store.
struct Outside {
    settings: Settings,
    shows: Showing,
    sealing: Sealing,
}

impl Outside {
    fn read(args: &Work, context: &Context) -> Result<Self, CliError> {
        let config = config::read(args.config.as_deref())?;
        let variable = context.surroundings.variable;
        Ok(Self {
            settings: config.settings(&variable)?,
            shows: config.showing(&variable)?,
            sealing: keys::sealing(&context.store)?,
        })
    }
}

fn timing(lease: Millis, heartbeat: Option<Millis>) -> Result<Timing, CliError> {
    let heartbeat = heartbeat.unwrap_or(Millis(lease.0 / 3));
    if heartbeat.0 == 0 || heartbeat.0 > lease.0 / 2 {
        let text = format!(
            "a lease of {lease} with a heartbeat of {heartbeat} cannot be kept alive: \
             the heartbeat must be at most half of --lease, and more than nothing"
        );
        return Err(CliError::Usage(text));
    }
    Ok(Timing { lease, heartbeat, ..Timing::default() })
}

/// The worker on any store; says whether every step under way was finished.
async fn work<S: Store>(
    args: &Work,
    store: S,
    (timing, me, outside): (Timing, WorkerId, Outside),
    beside: SqliteStore,
) -> Result<bool, CliError> {
    let settings = WorkerSettings {
        rooms: Rooms::beside(args.concurrency.get().into()),
        visibility: timing.lease,
        drain: args.drain.std(),
        ..WorkerSettings::default()
    };
    let engine = Engine::new(Parts {
        store: Arc::new(store),
        tools: connectors::standard(Allow { hosts: args.allow_host.clone() }, outside.settings),
        clock: Arc::new(SystemClock),
        me: me.clone(),
        timing,
        shows: outside.shows,
        sealing: Some(outside.sealing),
    });
    let (leave, heard) = leaving();
    let worker = Worker::new(Arc::new(engine), settings, me, heard);
    let mut stop = Stop::listen(args.until_idle.then_some(beside))?;
    let working = worker.run();
    tokio::pin!(working);
    tokio::select! {
        // Somebody has asked it through the roll.
        finished = &mut working => return Ok(told(finished)),
        why = stop.asked() => tracing::info!(why, "leaving; steps under way may finish"),
    }
    leave.ask();
    tokio::select! {
        finished = working => Ok(told(finished)),
        () = stop.asked_again() => Ok(told(false)),
    }
}

fn told(finished: bool) -> bool {
    if finished {
        tracing::info!("left; every step under way was finished");
    } else {
        tracing::warn!("left; steps that were not finished are taken over when their leases run out");
    }
    finished
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_a_third_of_the_lease_unless_said_otherwise() {
        assert_eq!(timing(Millis::secs(30), None).unwrap().heartbeat, Millis::secs(10));
        assert_eq!(timing(Millis::secs(30), Some(Millis(500))).unwrap().heartbeat, Millis(500));
    }

    #[test]
    fn a_lease_that_cannot_be_kept_alive_is_refused() {
        for (lease, heartbeat) in [(2, Some(2)), (2, Some(0)), (0, None), (1, None)] {
            assert!(timing(Millis(lease), heartbeat.map(Millis)).is_err(), "{lease} {heartbeat:?}");
        }
    }
}
