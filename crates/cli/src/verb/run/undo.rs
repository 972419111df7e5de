//! `countersign run undo`: what a finished run did is taken back by another run.

use api_types::{UndoEffect, UndoPlan};
use client::ClientError;
use domain::RunKey;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use crate::run_name::RunName;
use views::counted;
use views::table::{indented, table};

const EXAMPLES: &str = "\
Examples:
  countersign run undo RUN --plan      what would be taken back, and what would not, and why
  countersign run undo RUN             start the run that does it

A finished run never changes. Taking back is a run of its own, newest effect first; each of its
actions is judged by policy, may need people, and leaves a receipt and evidence. Asked for
twice, it is the same run. A run that is not over is taken back with `run rollback`.";

/// Take back what a finished run did, newest effect first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The finished run
    run: RunName,
    /// Show what would be done, and do nothing
    #[arg(long)]
    plan: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.run)?;
    let plan = link.client.undo_plan(&run.run).await.map_err(|error| in_words(error, &run, &link))?;
    if args.plan {
        context.answer(&plan_text(&plan, &run, &link), &json!(plan))?;
        return Ok(Ending::Done);
    }
    if taken_back(&plan) == 0 {
        return Err(CliError::Refused(format!("nothing is taken back\n{}", effects_text(&plan))));
    }
    let started = link.client.undo(&run.run).await.map_err(Link::about(&run))?;
    let undo = RunKey { tenant: run.tenant.clone(), run: started.run };
    let what = if started.new {
        format!("started: takes back {} of {}", counted(taken_back(&plan), "effect"), run.run)
    } else {
        format!("already started to take back {}; nothing changed", run.run)
    };
    let watch = link.hints.run("watch", &undo);
    let mut json = json!(plan);
    json["undo"] = json!(undo.run);
    json["new"] = started.new.into();
    context.answer(&format!("{}\n  {what}\n  follow it with: {watch}\n{}", undo.run, left(&plan)), &json)?;
    Ok(Ending::Done)
}

/// Why it was not done, where the API's words are about something else.
fn in_words(error: ClientError, run: &RunKey, link: &Link) -> CliError {
    match error.problem() {
        Some(problem) if problem.code == "RUN_NOT_OVER" => {
            let rollback = link.hints.run("rollback", run);
            CliError::Refused(format!("{problem}; take it back with `{rollback}`"))
        }
        _ => Link::about(run)(error),
    }
}

fn taken_back(plan: &UndoPlan) -> usize {
    plan.effects.iter().filter(|effect| effect.by.is_some()).count()
}

fn plan_text(plan: &UndoPlan, run: &RunKey, link: &Link) -> String {
    let next = if taken_back(plan) == 0 {
        "there is nothing to take back\n".to_owned()
    } else {
        format!("do it with: {}\n", link.hints.run("undo", run))
    };
    format!("{}{next}", effects_text(plan))
}

fn effects_text(plan: &UndoPlan) -> String {
    if plan.effects.is_empty() {
        return "the run had no effects\n".to_owned();
    }
    let row = |effect: &UndoEffect| {
        let how = match (&effect.by, &effect.stays) {
            (Some(call), _) => format!("is taken back by {}", call.tool),
            (None, Some(why)) => format!("stays: {why}"),
            (None, None) => "stays".to_owned(),
        };
        [effect.step.to_string(), effect.target.clone(), how]
    };
    let rows: Vec<_> = plan.effects.iter().map(row).collect();
    table(["STEP", "EFFECT ON", "NEWEST FIRST"], &rows)
}

/// What will stay, and why; empty if nothing does.
fn left(plan: &UndoPlan) -> String {
    let line = |effect: &UndoEffect| {
        let why = effect.stays.as_ref()?;
        Some(format!("{} on {} stays: {why}\n", effect.step, effect.target))
    };
    indented(&plan.effects.iter().filter_map(line).collect::<String>(), 2)
}
