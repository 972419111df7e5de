//! `countersign worker`: executes runs until it is asked to stop.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;

use ::worker::{CancellationToken, Concurrency, Worker, WorkerSettings};
use config::ProcessContext;
use connectors::{HostAllowList, HostRule};
use domain::{Millis, WorkerId};
use engine::{ConnectionParts, Engine, EngineParts, EvidenceSigner, Notifier, Timing};
use store::{Clock as _, Intercepted, SqliteStore, Store, SystemClock};

use crate::context::{Context, IfMissing};
use crate::error::CliError;
use crate::input::read_config;
use crate::process::ExitStatus;
use crate::shutdown::ShutdownSignal;
use crate::telemetry::{Metrics, start_logging};
use crate::{keys, random};

use super::crash::{CrashAt, CrashPoint};
use super::idle::wait_until_idle;

#[derive(Debug, clap::Args)]
pub(crate) struct Work {
    /// The number of concurrent steps. The worker has additional slots for tenants with few active steps, and for runs
    /// that were just approved or rejected
    #[arg(long, value_name = "N", default_value = "16")]
    concurrency: NonZeroU16,
    /// The duration of a lease. After this time without a renewal, another worker may take over the step
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    lease: Millis,
    /// The interval between lease renewals [default: a third of the lease]
    #[arg(long, value_name = "DURATION")]
    renew_every: Option<Millis>,
    /// Allow `http.request` to call this host in your network; repeatable
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_host: Vec<HostRule>,
    /// The configuration of external systems: addresses, and the variables that hold credentials
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// How long running steps may take to finish after SIGTERM or `worker drain`
    #[arg(long, value_name = "DURATION", default_value = "25s")]
    drain: Millis,
    /// Exit when no run can advance without a user or an external event
    #[arg(long)]
    until_idle: bool,
    /// The worker's name in the chain of events; a random suffix is added
    #[arg(long, value_name = "NAME", default_value = "worker")]
    name: WorkerId,
    #[command(flatten)]
    metrics: Metrics,
    /// Log JSON instead of text
    #[arg(long)]
    log_json: bool,
    /// For tests: kill the process at its N-th call to the store, counted from 0
    #[arg(long, value_name = "N[:before|:after]", hide = true)]
    crash_at: Option<CrashPoint>,
}

pub(super) async fn run(args: Work, context: &Context) -> Result<ExitStatus, CliError> {
    let timing = timing(args.lease, args.renew_every)?;
    let me = WorkerId::new(&format!("{}-{}", args.name, random::hex::<4>()?))?;
    start_logging(context.env.log.as_deref(), args.log_json)?;
    // Secrets of steps are in the memory of this process.
    if let Err(error) = credentials::exclude_from_core_dumps() {
        tracing::warn!(event = "core_dumps_not_disabled", %error, "core dumps are not disabled");
    }
    let _metrics = args.metrics.start().await?;
    let store = context.file_store(IfMissing::Create)?;
    let systems = ExternalSystems::read(&args, context)?;
    // The idle check uses the store directly, so that `--crash-at` does not count its calls.
    let idle_check_store = store.clone();
    let path = context.store.display();
    tracing::info!(event = "worker_started", worker = %me, store = %path, concurrency = args.concurrency, "worker started");
    let finished = match args.crash_at {
        None => Box::pin(run_worker(&args, store, (timing, me, systems), idle_check_store)).await?,
        Some(point) => {
            let store = Intercepted::new(store, CrashAt::new(point));
            Box::pin(run_worker(&args, store, (timing, me, systems), idle_check_store)).await?
        }
    };
    Ok(ExitStatus::success_if(finished))
}

struct ExternalSystems {
    connections: ConnectionParts,
    notifier: Notifier,
    evidence_signer: EvidenceSigner,
}

impl ExternalSystems {
    fn read(args: &Work, context: &Context) -> Result<Self, CliError> {
        let config = read_config(args.config.as_deref())?;
        let variable = context.env.variable;
        Ok(Self {
            connections: config
                .connection_parts(variable, ProcessContext::without_aws(|| SystemClock.now()))?,
            notifier: config.notifier()?,
            evidence_signer: keys::evidence_signer(&context.store)?,
        })
    }
}

fn timing(lease: Millis, renew_every: Option<Millis>) -> Result<Timing, CliError> {
    let renew_every = renew_every.unwrap_or(Millis(lease.0 / 3));
    if renew_every.0 == 0 || renew_every.0 > lease.0 / 2 {
        let text = format!(
            "--renew-every {renew_every} does not fit --lease {lease}: it must be more than 0 and at most half of \
             --lease"
        );
        return Err(CliError::Usage(text));
    }
    Ok(Timing { lease, renew_every, ..Timing::default() })
}

/// Runs the worker; returns whether every running step finished.
async fn run_worker<S: Store>(
    args: &Work,
    store: S,
    (timing, me, systems): (Timing, WorkerId, ExternalSystems),
    idle_check_store: SqliteStore,
) -> Result<bool, CliError> {
    let settings = WorkerSettings {
        concurrency: Concurrency::for_steps(args.concurrency.get().into()),
        visibility: timing.lease,
        drain: args.drain.std(),
        ..WorkerSettings::default()
    };
    let engine = Engine::new(EngineParts {
        store: Arc::new(store),
        tools: connectors::standard_tools(HostAllowList { hosts: args.allow_host.clone() }),
        connections: systems.connections,
        clock: Arc::new(SystemClock),
        me: me.clone(),
        timing,
        notifier: systems.notifier,
        evidence_signer: Some(systems.evidence_signer),
    });
    let shutdown = CancellationToken::new();
    let worker = Worker::new(Arc::new(engine), settings, me, shutdown.clone());
    let mut signals = ShutdownSignal::listen()?;
    let idle = async {
        if args.until_idle { wait_until_idle(&idle_check_store).await } else { std::future::pending().await }
    };
    let working = worker.run();
    tokio::pin!(working);
    tokio::select! {
        // An operator drained it through the worker registry.
        finished = &mut working => return Ok(log_exit(finished)),
        reason = signals.recv() => log_drain(reason),
        () = idle => log_drain("idle"),
    }
    shutdown.cancel();
    tokio::select! {
        finished = working => Ok(log_exit(finished)),
        _ = signals.recv() => Ok(log_exit(false)),
    }
}

fn log_drain(reason: &str) {
    tracing::info!(event = "worker_draining", reason, "draining; running steps may finish");
}

fn log_exit(finished: bool) -> bool {
    if finished {
        tracing::info!(event = "worker_stopped", finished, "worker stopped; every running step finished");
    } else {
        tracing::warn!(
            event = "worker_stopped",
            finished,
            "worker stopped; other workers take over its steps"
        );
    }
    finished
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_renewed_after_a_third_of_their_duration() {
        assert_eq!(timing(Millis::secs(30), None).unwrap().renew_every, Millis::secs(10));
        assert_eq!(timing(Millis::secs(30), Some(Millis(500))).unwrap().renew_every, Millis(500));
    }

    #[test]
    fn renewal_after_half_of_the_lease_is_refused() {
        for (lease, renew_every) in [(2, Some(2)), (2, Some(0)), (0, None), (1, None)] {
            assert!(timing(Millis(lease), renew_every.map(Millis)).is_err(), "{lease} {renew_every:?}");
        }
    }
}
