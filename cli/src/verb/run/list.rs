//! `countersign run list`: runs, newest first.

use domain::{RunRecord, RunStatus, Timestamp};
use serde_json::{Value, json};
use store::{Cursor, Ledger as _, RunPage, RunQuery, SqliteStore};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use telling::table::table;
use telling::time::{distance, moment};

const EXAMPLES: &str = "\
Examples:
  countersign run list
  countersign run list --status paused             runs that need an operator
  countersign run list --status waiting_approval   runs that ask a person
  countersign run list --limit 100 --before 4711   the page after that

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
    #[arg(long, value_name = "CURSOR", value_parser = SqliteStore::cursor)]
    before: Option<Cursor>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let engine = context.existing_engine()?;
    let query = RunQuery {
        tenant: context.tenant.clone(),
        status: args.status,
        before: args.before.clone(),
        limit: args.limit,
    };
    let page = engine.store().runs(query).await?;
    context.answer(&text(&page, args, engine.now(), context), &to_json(&page))?;
    Ok(Ending::Done)
}

fn text(page: &RunPage, args: &Args, now: Timestamp, context: &Context) -> String {
    if page.runs.is_empty() {
        return match args.status {
            Some(status) => format!("no run is {status}"),
            None => "no runs".to_owned(),
        };
    }
    let rows: Vec<_> = page.runs.iter().map(|run| row(run, now)).collect();
    let listed = table(["RUN", "WORKFLOW", "STATUS", "STEP", "STARTED"], &rows);
    match &page.next {
        Some(next) => format!("{listed}\nolder ones: {}\n", context.hints().line(&next_page(args, next))),
        None => listed,
    }
}

fn next_page(args: &Args, before: &Cursor) -> String {
    let status = args.status.map(|status| format!(" --status {status}")).unwrap_or_default();
    format!("run list{status} --limit {} --before {before}", args.limit)
}

fn row(run: &RunRecord, now: Timestamp) -> [String; 5] {
    [
        run.key.run.to_string(),
        format!("{} v{}", run.workflow, run.workflow_version),
        run.status.to_string(),
        format!("{} of {}", run.at.index() + 1, run.steps),
        distance(run.created_at, now),
    ]
}

fn to_json(page: &RunPage) -> Value {
    let run = |run: &RunRecord| {
        json!({
            "run": run.key.run,
            "tenant": run.key.tenant,
            "workflow": run.workflow,
            "version": run.workflow_version,
            "status": run.status,
            "step": run.at,
            "steps": run.steps,
            "created_at": moment(run.created_at),
            "completed_at": run.completed_at.map(moment),
        })
    };
    json!({ "runs": page.runs.iter().map(run).collect::<Value>(), "next": page.next })
}
