//! `countersign run list`: runs, newest first.

use api::LIMIT_MAX;
use api::wire::{RunLine, Runs};
use client::{ClientError, RunFilter};
use domain::{RunStatus, Timestamp};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use telling::hint::quoted;
use telling::table::table;
use telling::time::{self, distance};

const EXAMPLES: &str = "\
Examples:
  countersign run list
  countersign run list --status paused             runs that need an operator
  countersign run list --status waiting_approval   runs that ask a person
  countersign run list --limit 100 --before CURSOR the page after that

Statuses:
  queued, running, waiting_approval, waiting_event, paused, rolling_back, failed_retryable;
  and of runs that are over: succeeded, failed_terminal, canceled";

/// List runs, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only runs in this status
    #[arg(long)]
    status: Option<RunStatus>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only runs older than where the last page ended
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let link = context.link()?;
    let page = read(args, &link).await?;
    context.answer(&text(&page, args, &link), &to_json(&page, &link))?;
    Ok(Ending::Done)
}

/// As many runs as were asked for, in as many pages as that takes.
async fn read(args: &Args, link: &Link) -> Result<Runs, CliError> {
    let mut all = Runs { runs: Vec::new(), next: args.before.clone() };
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(all.runs.len()).unwrap_or(u32::MAX));
        let filter =
            RunFilter { status: args.status, cursor: all.next.clone(), limit: Some(missing.min(LIMIT_MAX)) };
        let page = link.client.runs(filter).await.map_err(|error| no_cursor(error, args))?;
        all.runs.extend(page.runs);
        all.next = page.next;
        if all.next.is_none() || all.runs.len() >= args.limit as usize {
            return Ok(all);
        }
    }
}

/// A cursor that is none was typed as `--before`.
fn no_cursor(error: ClientError, args: &Args) -> CliError {
    match error.problem() {
        Some(problem) if problem.status == 400 && args.before.is_some() => {
            CliError::Usage(format!("--before cannot be used: {problem}; begin without it"))
        }
        _ => error.into(),
    }
}

fn text(page: &Runs, args: &Args, link: &Link) -> String {
    if page.runs.is_empty() {
        return match args.status {
            Some(status) => format!("no run is {status}"),
            None => "no runs".to_owned(),
        };
    }
    let now = Link::now();
    let rows: Vec<_> = page.runs.iter().map(|run| row(run, now)).collect();
    let listed = table(["RUN", "WORKFLOW", "STATUS", "STEP", "STARTED"], &rows);
    match &page.next {
        Some(next) => format!("{listed}\nolder ones: {}\n", link.hints.line(&next_page(args, next))),
        None => listed,
    }
}

fn next_page(args: &Args, before: &str) -> String {
    let status = args.status.map(|status| format!(" --status {status}")).unwrap_or_default();
    format!("run list{status} --limit {} --before {}", args.limit, quoted(before))
}

fn row(run: &RunLine, now: Timestamp) -> [String; 5] {
    [
        run.run.to_string(),
        format!("{} v{}", run.workflow, run.version),
        run.status.to_string(),
        format!("{} of {}", run.at.index() + 1, run.steps),
        time::read(&run.created_at).map_or_else(|| run.created_at.clone(), |at| distance(at, now)),
    ]
}

fn to_json(page: &Runs, link: &Link) -> Value {
    let run = |run: &RunLine| {
        json!({
            "run": run.run,
            "tenant": link.tenant,
            "workflow": run.workflow,
            "version": run.version,
            "status": run.status,
            "step": run.at,
            "steps": run.steps,
            "created_at": run.created_at,
            "completed_at": run.completed_at,
        })
    };
    json!({ "runs": page.runs.iter().map(run).collect::<Value>(), "next": page.next })
}
