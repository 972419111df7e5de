//! `countersign run list`: runs, newest first.

use api_types::LIMIT_MAX;
use api_types::{RunLine, Runs};
use client::{ClientError, RunFilter};
use domain::{RecordName, RunStatus, Timestamp};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use views::hint::quoted;
use views::table::table;
use views::time::{self, distance, moment};
use views::when::When;

const EXAMPLES: &str = "\
Examples:
  countersign run list
  countersign run list --status paused             runs that need an operator
  countersign run list --status waiting_approval   runs that ask a person
  countersign run list --record servicenow:incident:9d38
  countersign run list --since 2h --status failed_terminal
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
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let link = context.link()?;
    let wanted = Wanted::at(args, Link::now());
    let page = read(args, &wanted, &link).await?;
    context.answer(&text(&page, &wanted, &link), &to_json(&page, &link))?;
    Ok(Ending::Done)
}

/// What is asked for, on every page alike.
struct Wanted {
    status: Option<RunStatus>,
    record: Option<RecordName>,
    since: Option<String>,
    until: Option<String>,
    limit: u32,
}

impl Wanted {
    /// What was typed means where it is `now`.
    fn at(args: &Args, now: Timestamp) -> Self {
        let told = |when: Option<When>| when.map(|when| moment(when.moment(now)));
        Self {
            status: args.status,
            record: args.record.clone(),
            since: told(args.since),
            until: told(args.until),
            limit: args.limit,
        }
    }

    fn page(&self, cursor: Option<String>, missing: u32) -> RunFilter {
        RunFilter {
            status: self.status,
            record: self.record.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            cursor,
            limit: Some(missing.min(LIMIT_MAX)),
        }
    }
}

/// As many runs as were asked for, in as many pages as that takes.
async fn read(args: &Args, wanted: &Wanted, link: &Link) -> Result<Runs, CliError> {
    let mut all = Runs { runs: Vec::new(), next: args.before.clone() };
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(all.runs.len()).unwrap_or(u32::MAX));
        let filter = wanted.page(all.next.clone(), missing);
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

fn text(page: &Runs, wanted: &Wanted, link: &Link) -> String {
    if page.runs.is_empty() {
        let narrowed = wanted.record.is_some() || wanted.since.is_some() || wanted.until.is_some();
        return match wanted.status {
            _ if narrowed => "no such run".to_owned(),
            Some(status) => format!("no run is {status}"),
            None => "no runs".to_owned(),
        };
    }
    let now = Link::now();
    let rows: Vec<_> = page.runs.iter().map(|run| row(run, now)).collect();
    let listed = table(["RUN", "WORKFLOW", "STATUS", "STEP", "STARTED"], &rows);
    match &page.next {
        Some(next) => format!("{listed}\nolder ones: {}\n", link.hints.line(&next_page(wanted, next))),
        None => listed,
    }
}

fn next_page(wanted: &Wanted, before: &str) -> String {
    let option = |name: &str, value: Option<String>| value.map(|value| format!(" --{name} {value}"));
    let options = [
        option("status", wanted.status.map(|status| status.to_string())),
        option("record", wanted.record.as_ref().map(|record| quoted(record.as_str()))),
        option("since", wanted.since.clone()),
        option("until", wanted.until.clone()),
    ];
    let options: String = options.into_iter().flatten().collect();
    format!("run list{options} --limit {} --before {}", wanted.limit, quoted(before))
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
            "record": run.record,
            "status": run.status,
            "step": run.at,
            "steps": run.steps,
            "created_at": run.created_at,
            "completed_at": run.completed_at,
        })
    };
    json!({ "runs": page.runs.iter().map(run).collect::<Value>(), "next": page.next })
}
