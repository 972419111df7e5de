//! `countersign cost`: what runs have cost.

use std::collections::BTreeMap;

use api_types::LIMIT_MAX;
use api_types::{Cost, Run};
use client::RunFilter;
use domain::RecordName;
use serde_json::json;
use views::money;
use views::table::table;
use views::time::moment;
use views::when::When;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use crate::run_name::RunName;
use crate::so_far::SoFar;

const EXAMPLES: &str = "\
Examples:
  countersign cost                       the last 30 days, by workflow
  countersign cost --since 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z
  countersign cost --record servicenow:incident:9d38
  countersign cost RUN                   one run, step by step

It is what steps paid for models and other metered tools, as they reported it. What AWS charges
for a step is not in it; docs/cost.md counts that.";

/// Show what runs have cost: all of them by workflow, or one of them step by step
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run; without it, all of them
    run: Option<RunName>,
    /// Only runs that were started at this time or later: 2026-11-15T08:00:00Z, or how long ago, such as 2h
    #[arg(long, value_name = "TIME", default_value = "30d", conflicts_with = "run")]
    since: When,
    /// Only runs that were started before this time
    #[arg(long, value_name = "TIME", conflicts_with = "run")]
    until: Option<When>,
    /// Only runs about this record outside, such as servicenow:incident:9d38
    #[arg(long, value_name = "RECORD", conflicts_with = "run")]
    record: Option<RecordName>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    match &args.run {
        Some(name) => of_run(name, context).await?,
        None => of_all(args, context).await?,
    }
    Ok(Ending::Done)
}

async fn of_run(name: &RunName, context: &Context) -> Result<(), CliError> {
    let (link, key) = context.link_to(name)?;
    let run = link.client.run(&key.run).await.map_err(Link::about(&key))?;
    let json = json!({ "run": run.run, "cost_microusd": run.cost_microusd, "costs": run.costs });
    context.answer(&steps(&run), &json)
}

fn steps(run: &Run) -> String {
    if run.costs.is_empty() {
        return format!("run {} has paid for nothing", run.run);
    }
    let row = |cost: &Cost| {
        let back = if cost.undo { " (taken back)" } else { "" };
        [format!("{}{back}", cost.step), money(cost.microusd), what_for(cost)]
    };
    let all = ["all".to_owned(), money(run.cost_microusd), String::new()];
    let rows: Vec<_> = run.costs.iter().map(row).chain([all]).collect();
    table(["STEP", "COST", "FOR"], &rows)
}

fn what_for(cost: &Cost) -> String {
    cost.usage.as_ref().map_or_else(String::new, |usage| {
        let (tokens_in, tokens_out) = (usage.input_tokens, usage.output_tokens);
        format!("{} {}, {tokens_in} tokens in, {tokens_out} out", usage.provider, usage.model)
    })
}

/// How many runs, and what they cost.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    runs: u64,
    microusd: u64,
}

impl Sum {
    fn add(&mut self, microusd: u64) {
        self.runs += 1;
        self.microusd = self.microusd.saturating_add(microusd);
    }

    fn row(self, of: &str) -> [String; 4] {
        let each = self.microusd.checked_div(self.runs).unwrap_or(0);
        [of.to_owned(), self.runs.to_string(), money(self.microusd), money(each)]
    }
}

async fn of_all(args: &Args, context: &Context) -> Result<(), CliError> {
    let link = context.link()?;
    let now = Link::now();
    let (since, until) = (moment(args.since.moment(now)), args.until.map(|until| moment(until.moment(now))));
    let (mut all, mut by_workflow) = (Sum::default(), BTreeMap::<String, Sum>::new());
    let mut so_far = SoFar::new(context);
    let mut cursor = None;
    loop {
        let page = link
            .client
            .runs(RunFilter {
                status: None,
                record: args.record.clone(),
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
        so_far.say(&format!("{} runs counted", all.runs));
    }
    drop(so_far);
    let listed = |(workflow, sum): (&String, &Sum)| json!({ "workflow": workflow, "runs": sum.runs, "cost_microusd": sum.microusd });
    let workflows: Vec<_> = by_workflow.iter().map(listed).collect();
    let json = json!({
        "since": since,
        "until": until,
        "runs": all.runs,
        "cost_microusd": all.microusd,
        "workflows": workflows,
    });
    context.answer(&sums(&by_workflow, all, &since), &json)
}

fn sums(by_workflow: &BTreeMap<String, Sum>, all: Sum, since: &str) -> String {
    if all.runs == 0 {
        return format!("no such run was started since {since}");
    }
    let rows = by_workflow.iter().map(|(workflow, sum)| sum.row(workflow)).chain([all.row("all")]);
    table(["WORKFLOW", "RUNS", "COST", "A RUN"], &rows.collect::<Vec<_>>())
}
