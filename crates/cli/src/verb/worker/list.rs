//! `countersign worker list`.

use api_types::{DrainRequest, WorkerInfo};
use connectors::ToolRegistry;
use domain::Timestamp;
use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;
use views::time::{self, relative};

const EXAMPLES: &str = "\
Examples:
  countersign worker list
  countersign worker list --all --json

Statuses:
  idle       running, no messages
  executing  running, processing messages
  errored    running, but not working correctly; the last column shows the cause
  draining   asked to drain: starts no new steps from its next heartbeat on (15 s) and finishes its
             messages
  offline    no heartbeat for 45 s; other workers take over its steps
  stopped    exited (with --all)";

/// List workers and their status
///
/// A worker serves every tenant and sends a heartbeat every 15 seconds. The list is informational: a worker that
/// cannot send heartbeats keeps working.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Include workers that stopped or went offline more than an hour ago; records are deleted after a day
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let session = context.connect_read_only(ToolRegistry::default().into())?;
    let mut workers = session.client.workers().await?.workers;
    let now = ApiSession::now();
    workers.retain(|worker| args.all || worker.expected);
    // Workers of a server or an account are not started with this program.
    let start = context.targets_file()?.then(|| session.hints.line("worker"));
    context.print(&text(&workers, start.as_deref(), now), &json!({ "workers": workers }))?;
    Ok(ExitStatus::Success)
}

fn text(workers: &[WorkerInfo], start: Option<&str>, now: Timestamp) -> String {
    if workers.is_empty() {
        let start = start.map_or_else(String::new, |line| format!("; start one with: {line}"));
        return format!("no workers{start}\n");
    }
    let rows: Vec<_> = workers
        .iter()
        .map(|worker| {
            [
                worker.worker.clone(),
                worker.status.clone(),
                worker.in_flight.to_string(),
                ago(&worker.started_at, now),
                ago(&worker.last_heartbeat_at, now),
                remark(worker),
            ]
        })
        .collect();
    table(["WORKER", "STATUS", "MESSAGES", "STARTED", "LAST HEARTBEAT", ""], &rows)
}

fn ago(at: &str, now: Timestamp) -> String {
    time::parse(at).map_or_else(|| at.to_owned(), |at| relative(at, now))
}

/// The cause of an error, unfinished steps, and the drain request.
fn remark(worker: &WorkerInfo) -> String {
    let error = worker.error.clone();
    let unfinished = worker.drained.filter(|drained| !drained).map(|_| "left unfinished steps".to_owned());
    let drain = worker
        .drain_request
        .as_ref()
        .map(|DrainRequest { by, reason, .. }| format!("drain requested by {by}: {reason}"));
    error.into_iter().chain(unfinished).chain(drain).collect::<Vec<_>>().join("; ")
}
