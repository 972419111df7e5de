//! `countersign run list`.

use api_types::LIMIT_MAX;
use api_types::{RunSummary, Runs};
use client::{ClientError, RunFilter};
use domain::{RecordName, RunStatus, Timestamp, WorkspaceId};
use serde_json::{Value, json};

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::hint::quoted;
use views::table::table;
use views::time::{self, relative, rfc3339_millis};
use views::time_arg::TimeArg;

const EXAMPLES: &str = "\
Examples:
  countersign run list
  countersign run list --status paused             runs that need an operator
  countersign run list --status waiting_approval   runs that need an approval
  countersign run list --record servicenow:incident:9d38
  countersign run list --since 2h --status failed_terminal
  countersign run list --limit 100 --before CURSOR the next page

Statuses:
  queued, running, waiting_approval, waiting_event, paused, rolling_back, failed_retryable;
  of finished runs: succeeded, failed_terminal, canceled";

/// List runs, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only runs with this status
    #[arg(long)]
    status: Option<RunStatus>,
    /// Only runs about this external record, such as servicenow:incident:9d38
    #[arg(long, value_name = "RECORD")]
    record: Option<RecordName>,
    /// Only runs of this workspace
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<WorkspaceId>,
    /// Only runs started at or after this time: 2026-11-15T08:00:00Z, or a duration before now, such as 2h
    #[arg(long, value_name = "TIME")]
    since: Option<TimeArg>,
    /// Only runs started before this time
    #[arg(long, value_name = "TIME")]
    until: Option<TimeArg>,
    /// The maximum number of runs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only runs before this cursor, which the previous page printed
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let session = context.connect()?;
    let query = ListQuery::new(args, ApiSession::now());
    let page = read(args, &query, &session).await?;
    context.print(&text(&page, &query, &session), &to_json(&page, &session))?;
    Ok(ExitStatus::Success)
}

/// The filter, which is the same for every page.
struct ListQuery {
    status: Option<RunStatus>,
    record: Option<RecordName>,
    workspace: Option<WorkspaceId>,
    since: Option<String>,
    until: Option<String>,
    limit: u32,
}

impl ListQuery {
    /// Resolves ages against `now`.
    fn new(args: &Args, now: Timestamp) -> Self {
        let resolve = |when: Option<TimeArg>| when.map(|when| rfc3339_millis(when.resolve(now)));
        Self {
            status: args.status,
            record: args.record.clone(),
            workspace: args.workspace.clone(),
            since: resolve(args.since),
            until: resolve(args.until),
            limit: args.limit,
        }
    }

    fn page(&self, cursor: Option<String>, missing: u32) -> RunFilter {
        RunFilter {
            status: self.status,
            record: self.record.clone(),
            workspace: self.workspace.clone(),
            since: self.since.clone(),
            until: self.until.clone(),
            cursor,
            limit: Some(missing.min(LIMIT_MAX)),
        }
    }
}

/// Reads pages until the limit is reached.
async fn read(args: &Args, query: &ListQuery, session: &ApiSession) -> Result<Runs, CliError> {
    let mut all = Runs { runs: Vec::new(), next: args.before.clone() };
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(all.runs.len()).unwrap_or(u32::MAX));
        let filter = query.page(all.next.clone(), missing);
        let page = session.client.runs(filter).await.map_err(|error| cursor_error(error, args))?;
        all.runs.extend(page.runs);
        all.next = page.next;
        if all.next.is_none() || all.runs.len() >= args.limit as usize {
            return Ok(all);
        }
    }
}

/// Attributes a bad request to `--before`.
fn cursor_error(error: ClientError, args: &Args) -> CliError {
    match error.problem() {
        Some(problem) if problem.status == 400 && args.before.is_some() => {
            CliError::Usage(format!("--before is invalid: {problem}; start without it"))
        }
        _ => error.into(),
    }
}

fn text(page: &Runs, query: &ListQuery, session: &ApiSession) -> String {
    if page.runs.is_empty() {
        let times = query.since.is_some() || query.until.is_some();
        let filtered = query.record.is_some() || query.workspace.is_some() || times;
        return match query.status {
            _ if filtered => "no matching runs".to_owned(),
            Some(status) => format!("no {status} runs"),
            None => "no runs".to_owned(),
        };
    }
    let now = ApiSession::now();
    let rows: Vec<_> = page.runs.iter().map(|run| row(run, now)).collect();
    let listed = table(["RUN", "WORKFLOW", "STATUS", "STEP", "STARTED"], &rows);
    match &page.next {
        Some(next) => format!("{listed}\nnext page: {}\n", session.hints.line(&next_page(query, next))),
        None => listed,
    }
}

fn next_page(query: &ListQuery, before: &str) -> String {
    let option = |name: &str, value: Option<String>| value.map(|value| format!(" --{name} {value}"));
    let options = [
        option("status", query.status.map(|status| status.to_string())),
        option("record", query.record.as_ref().map(|record| quoted(record.as_str()))),
        option("workspace", query.workspace.as_ref().map(ToString::to_string)),
        option("since", query.since.clone()),
        option("until", query.until.clone()),
    ];
    let options: String = options.into_iter().flatten().collect();
    format!("run list{options} --limit {} --before {}", query.limit, quoted(before))
}

fn row(run: &RunSummary, now: Timestamp) -> [String; 5] {
    [
        run.run.to_string(),
        format!("{} v{}", run.workflow, run.version),
        run.status.to_string(),
        format!("{} of {}", run.current_step.index() + 1, run.steps),
        time::parse(&run.created_at).map_or_else(|| run.created_at.clone(), |at| relative(at, now)),
    ]
}

fn to_json(page: &Runs, session: &ApiSession) -> Value {
    let run = |run: &RunSummary| {
        json!({
            "run": run.run,
            "tenant": session.tenant,
            "workflow": run.workflow,
            "version": run.version,
            "record": run.record,
            "status": run.status,
            "current_step": run.current_step,
            "steps": run.steps,
            "created_at": run.created_at,
            "completed_at": run.completed_at,
        })
    };
    json!({ "runs": page.runs.iter().map(run).collect::<Value>(), "next": page.next })
}
