//! `countersign cost`.

use std::collections::BTreeMap;

use api_types::LIMIT_MAX;
use api_types::{Cost, Run};
use client::RunFilter;
use domain::RecordName;
use domain::money::money;
use serde_json::json;
use views::table::table;
use views::time::rfc3339_millis;
use views::time_arg::TimeArg;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::progress::StatusLine;
use crate::run_name::RunName;

const EXAMPLES: &str = "\
Examples:
  countersign cost                       the last 30 days, by workflow
  countersign cost --since 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z
  countersign cost --record servicenow:incident:9d38
  countersign cost RUN                   one run, step by step

The costs are those of models and other metered tools, as the tools reported them. AWS charges are
not included; see docs/cost.md.";

/// Show costs by workflow, or by step for one run
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run [default: all runs]
    run: Option<RunName>,
    /// Only runs started at or after this time: 2026-11-15T08:00:00Z, or a duration before now, such as 2h
    #[arg(long, value_name = "TIME", default_value = "30d", conflicts_with = "run")]
    since: TimeArg,
    /// Only runs started before this time
    #[arg(long, value_name = "TIME", conflicts_with = "run")]
    until: Option<TimeArg>,
    /// Only runs about this external record, such as servicenow:incident:9d38
    #[arg(long, value_name = "RECORD", conflicts_with = "run")]
    record: Option<RecordName>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    match &args.run {
        Some(name) => print_run(name, context).await?,
        None => print_all(args, context).await?,
    }
    Ok(ExitStatus::Success)
}

async fn print_run(name: &RunName, context: &Context) -> Result<(), CliError> {
    let (session, key) = context.connect_to_run(name)?;
    let run = session.client.run(&key.run).await.map_err(ApiSession::run_error(&key))?;
    let json = json!({ "run": run.run, "cost_microusd": run.cost_microusd, "costs": run.costs });
    context.print(&steps_text(&run), &json)
}

fn steps_text(run: &Run) -> String {
    if run.costs.is_empty() {
        return format!("run {} has no costs", run.run);
    }
    let row = |cost: &Cost| {
        let back = if cost.rollback { " (rollback)" } else { "" };
        [format!("{}{back}", cost.step), money(cost.microusd), usage_text(cost)]
    };
    let all = ["total".to_owned(), money(run.cost_microusd), String::new()];
    let rows: Vec<_> = run.costs.iter().map(row).chain([all]).collect();
    table(["STEP", "COST", "FOR"], &rows)
}

fn usage_text(cost: &Cost) -> String {
    cost.usage.as_ref().map_or_else(String::new, |usage| {
        let (tokens_in, tokens_out) = (usage.input_tokens, usage.output_tokens);
        format!("{} {}, {tokens_in} tokens in, {tokens_out} out", usage.provider, usage.model)
    })
}

#[derive(Debug, Clone, Copy, Default)]
struct CostTotal {
    runs: u64,
    microusd: u64,
}

impl CostTotal {
    fn add(&mut self, microusd: u64) {
        self.runs += 1;
        self.microusd = self.microusd.saturating_add(microusd);
    }

    fn row(self, name: &str) -> [String; 4] {
        let per_run = self.microusd.checked_div(self.runs).unwrap_or(0);
        [name.to_owned(), self.runs.to_string(), money(self.microusd), money(per_run)]
    }
}

async fn print_all(args: &Args, context: &Context) -> Result<(), CliError> {
    let session = context.connect()?;
    let now = ApiSession::now();
    let (since, until) =
        (rfc3339_millis(args.since.resolve(now)), args.until.map(|until| rfc3339_millis(until.resolve(now))));
    let (mut all, mut by_workflow) = (CostTotal::default(), BTreeMap::<String, CostTotal>::new());
    let mut status_line = StatusLine::new(context);
    let mut cursor = None;
    loop {
        let page = session
            .client
            .runs(RunFilter {
                status: None,
                record: args.record.clone(),
                workspace: None,
                since: Some(since.clone()),
                until: until.clone(),
                cursor,
                limit: Some(LIMIT_MAX),
            })
            .await?;
        for run in page.runs {
            all.add(run.cost_microusd);
            by_workflow.entry(run.workflow.to_string()).or_default().add(run.cost_microusd);
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        status_line.set(&format!("{} runs counted", all.runs));
    }
    drop(status_line);
    let workflow_json = |(workflow, sum): (&String, &CostTotal)| json!({ "workflow": workflow, "runs": sum.runs, "cost_microusd": sum.microusd });
    let workflows: Vec<_> = by_workflow.iter().map(workflow_json).collect();
    let json = json!({
        "since": since,
        "until": until,
        "runs": all.runs,
        "cost_microusd": all.microusd,
        "workflows": workflows,
    });
    context.print(&totals_text(&by_workflow, all, &since), &json)
}

fn totals_text(by_workflow: &BTreeMap<String, CostTotal>, all: CostTotal, since: &str) -> String {
    if all.runs == 0 {
        return format!("no matching runs since {since}");
    }
    let rows = by_workflow.iter().map(|(workflow, sum)| sum.row(workflow)).chain([all.row("total")]);
    table(["WORKFLOW", "RUNS", "COST", "COST PER RUN"], &rows.collect::<Vec<_>>())
}
