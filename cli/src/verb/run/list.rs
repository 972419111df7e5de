//! `countersign run list`: runs, newest first.

use domain::{RecordName, RunRecord, RunStatus, Timestamp};
use serde_json::{Value, json};
use store::{Cursor, Ledger as _, RunPage, RunQuery, SqliteStore};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use telling::table::table;
use telling::time::{distance, moment};
use telling::when::When;

const EXAMPLES: &str = "\
Examples:
  countersign run list
  countersign run list --status paused             runs that need an operator
  countersign run list --status waiting_approval   runs that ask a person
  countersign run list --record servicenow:incident:9d38
  countersign run list --since 2h --status failed_terminal
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
    /// Only runs about this record outside, such as servicenow:incident:9d38
    #[arg(long, value_name = "RECORD")]
    record: Option<RecordName>,
    /// Only runs that were started at this time or later: 2026-11-15T08:00:00Z, or how long ago, such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Only runs that were started before this time
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
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
        record: args.record.clone(),
        since: args.since.map(|since| since.moment(engine.now())),
        until: args.until.map(|until| until.moment(engine.now())),
        before: args.before.clone(),
        limit: args.limit,
    };
    let page = engine.store().runs(query.clone()).await?;
    context.answer(&text(&page, &query, engine.now(), context), &to_json(&page))?;
    Ok(Ending::Done)
}

fn text(page: &RunPage, query: &RunQuery, now: Timestamp, context: &Context) -> String {
    if page.runs.is_empty() {
        let narrowed = query.record.is_some() || query.since.is_some() || query.until.is_some();
        return match query.status {
            _ if narrowed => "no such run".to_owned(),
            Some(status) => format!("no run is {status}"),
            None => "no runs".to_owned(),
        };
    }
    let rows: Vec<_> = page.runs.iter().map(|run| row(run, now)).collect();
    let listed = table(["RUN", "WORKFLOW", "STATUS", "STEP", "STARTED"], &rows);
    match &page.next {
        Some(next) => format!("{listed}\nolder ones: {}\n", context.hints().line(&next_page(query, next))),
        None => listed,
    }
}

fn next_page(query: &RunQuery, before: &Cursor) -> String {
    let option = |name: &str, value: Option<String>| value.map(|value| format!(" --{name} {value}"));
    let options = [
        option("status", query.status.map(|status| status.to_string())),
        option("record", query.record.as_ref().map(RecordName::to_string)),
        option("since", query.since.map(moment)),
        option("until", query.until.map(moment)),
    ];
    let options: String = options.into_iter().flatten().collect();
    format!("run list{options} --limit {} --before {before}", query.limit)
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
            "record": run.trigger.record,
            "status": run.status,
            "step": run.at,
            "steps": run.steps,
            "created_at": moment(run.created_at),
            "completed_at": run.completed_at.map(moment),
        })
    };
    json!({ "runs": page.runs.iter().map(run).collect::<Value>(), "next": page.next })
}
