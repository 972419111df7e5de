//! `countersign worker list`: which workers there are.

use api_types::{DrainRequest, Worker};
use connectors::Toolbox;
use domain::Timestamp;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use views::table::table;
use views::time::{self, distance};

const EXAMPLES: &str = "\
Examples:
  countersign worker list
  countersign worker list --all --json

WorkerStatus:
  idle       there, with nothing to do
  executing  at work on so many messages
  errored    there, and not working as it should; the last column says why
  draining   asked to leave: it begins nothing from its next signature on (15 s), and finishes
             what it has in hand
  offline    not heard of for 45 s; what it had in hand is taken over
  left       gone, as it said itself (with --all)";

/// Show the workers there are, and how they stand
///
/// A worker signs a roll every 15 seconds, and serves every tenant. Nothing hangs on it: one that cannot sign works all the
/// same.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Show those as well that left, or vanished more than an hour ago; names are forgotten after a day
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let link = context.link_to_look(Toolbox::default())?;
    let mut workers = link.client.workers().await?.workers;
    let now = Link::now();
    workers.retain(|worker| args.all || worker.expected);
    // Workers of a server or an account are not started here.
    let start = context.is_for_a_file()?.then(|| link.hints.line("worker"));
    context.answer(&text(&workers, start.as_deref(), now), &json!({ "workers": workers }))?;
    Ok(Ending::Done)
}

fn text(workers: &[Worker], start: Option<&str>, now: Timestamp) -> String {
    if workers.is_empty() {
        let start = start.map_or_else(String::new, |line| format!("; start one with: {line}"));
        return format!("no worker has signed the roll{start}\n");
    }
    let rows: Vec<_> = workers
        .iter()
        .map(|worker| {
            [
                worker.worker.clone(),
                worker.standing.clone(),
                worker.in_hand.to_string(),
                ago(&worker.since, now),
                ago(&worker.seen, now),
                remark(worker),
            ]
        })
        .collect();
    table(["WORKER", "STANDING", "IN HAND", "CAME", "LAST HEARD OF", ""], &rows)
}

fn ago(at: &str, now: Timestamp) -> String {
    time::read(at).map_or_else(|| at.to_owned(), |at| distance(at, now))
}

/// What else there is to say of it.
fn remark(worker: &Worker) -> String {
    let wrong = worker.why.clone();
    let unfinished = worker.finished.filter(|finished| !finished).map(|_| "left steps to others".to_owned());
    let asked = worker
        .asked
        .as_ref()
        .map(|DrainRequest { by, reason, .. }| format!("asked to leave by {by}: {reason}"));
    wrong.into_iter().chain(unfinished).chain(asked).collect::<Vec<_>>().join("; ")
}
