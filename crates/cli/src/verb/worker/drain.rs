//! `countersign worker drain`.

use std::time::Duration;

use api_types::WorkerInfo;
use domain::worker_registry::{HEARTBEAT_EVERY, OFFLINE_AFTER};
use domain::{WorkerId, WorkerRecord, WorkerReport};
use engine::Engine;
use serde_json::json;
use store::Store;
use tokio::time::{Instant, sleep};
use views::counted;

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::progress::StatusLine;

/// Balances the delay for the operator against load on the store.
const POLL_EVERY: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  countersign worker drain worker-1f3a --reason 'new release'
  countersign worker drain worker-1f3a --reason 'new release' --no-wait
  countersign worker drain worker-9c0e --reason 'new release' --aws

A worker serves every tenant, so this command works on a store, not through a server. A supervisor
such as an ECS service starts a replacement.

Exit codes: 0 if the worker exited after finishing its messages, or if --no-wait was given; 1 if
it left steps to other workers or went offline.";

/// Drain a worker: it starts no new steps, finishes the running ones and exits
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The worker's name, as `worker list` shows it
    worker: WorkerId,
    /// The reason; operators of every tenant see it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Do not wait until the worker has stopped
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    with_store!(context.any_store(IfMissing::Fail)?, |store| {
        run_on(&command_engine(store, default_tools())?, args, context).await
    })
}

async fn run_on<S: Store>(
    engine: &Engine<S>,
    args: &Args,
    context: &Context,
) -> Result<ExitStatus, CliError> {
    let requested = engine.operations().request_drain(&args.worker, &context.by_user(), &args.reason).await?;
    let (record, result) = if args.no_wait {
        (requested, WaitResult::NotWaited)
    } else {
        wait_until_stopped(engine, requested, StatusLine::new(context)).await?
    };
    let (text, status) = render(&record, result);
    context.print(&text, &json!(WorkerInfo::new(record, engine.now())))?;
    Ok(status)
}

enum WaitResult {
    /// The worker reported that it stopped.
    Stopped,
    /// The worker stopped sending heartbeats.
    Offline,
    NotWaited,
}

/// Waits until the worker has stopped or is offline. Clocks differ between machines, so a worker counts as offline if
/// its record does not change for a while.
async fn wait_until_stopped<S: Store>(
    engine: &Engine<S>,
    mut record: WorkerRecord,
    mut status_line: StatusLine,
) -> Result<(WorkerRecord, WaitResult), CliError> {
    let mut changed_at = Instant::now();
    loop {
        let status = match &record.report {
            WorkerReport::Stopped { .. } => return Ok((record, WaitResult::Stopped)),
            _ if changed_at.elapsed() > OFFLINE_AFTER.std() => return Ok((record, WaitResult::Offline)),
            WorkerReport::Draining { in_flight } => {
                format!("{} has {} to finish", record.worker, message_count(*in_flight))
            }
            WorkerReport::Working { .. } | WorkerReport::Unhealthy { .. } => {
                format!("{} receives the request within {HEARTBEAT_EVERY}", record.worker)
            }
        };
        status_line.set(&status);
        sleep(POLL_EVERY).await;
        let now = engine.operations().worker(&record.worker).await?;
        if now.revision != record.revision {
            changed_at = Instant::now();
        }
        record = now;
    }
}

fn render(record: &WorkerRecord, result: WaitResult) -> (String, ExitStatus) {
    let worker = &record.worker;
    match (&record.report, result) {
        (WorkerReport::Stopped { drained: true }, _) => {
            (format!("{worker} has stopped after finishing all its messages"), ExitStatus::Success)
        }
        (WorkerReport::Stopped { drained: false }, _) => {
            let rest = "other workers take over its unfinished steps when their leases expire";
            (format!("{worker} has stopped; {rest}"), ExitStatus::Failure)
        }
        (_, WaitResult::Offline | WaitResult::Stopped) => {
            let rest = "other workers take over its steps, and it exits if it comes back";
            (format!("{worker} is offline; {rest}"), ExitStatus::Failure)
        }
        (report, WaitResult::NotWaited) => {
            let rest = match report.in_flight() {
                0 => String::new(),
                some => format!(", and finishes {} before it exits", message_count(some)),
            };
            (
                format!(
                    "{worker} was asked to drain; it receives the request within {HEARTBEAT_EVERY}{rest}"
                ),
                ExitStatus::Success,
            )
        }
    }
}

fn message_count(count: u32) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "message")
}
