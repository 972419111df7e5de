//! `countersign run undo`: what a finished run did is taken back by another run.

use domain::RunKey;
use engine::{EngineError, UndoEffect, UndoPlan};
use serde_json::{Value, json};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::run_name::RunName;
use telling::counted;
use telling::table::{indented, table};

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
    let run = context.run(&args.run);
    let engine = context.existing_engine()?;
    let plan = engine.undo_plan(&run).await.map_err(|error| in_words(error, context))?;
    if args.plan {
        context.answer(&plan_text(&plan, context), &plan_json(&plan))?;
        return Ok(Ending::Done);
    }
    if taken_back(&plan) == 0 {
        return Err(CliError::Refused(format!("nothing is taken back\n{}", effects_text(&plan))));
    }
    let started = engine.undo(&run, &context.by_user()).await?;
    let undo = &started.run;
    let what = if started.new {
        format!("started: takes back {} of {}", counted(taken_back(&plan), "effect"), run.run)
    } else {
        format!("already started to take back {}; nothing changed", run.run)
    };
    let watch = context.hints_for(undo).run("watch", undo);
    let mut json = plan_json(&plan);
    json["undo"] = json!(undo.run);
    json["new"] = started.new.into();
    context.answer(&format!("{}\n  {what}\n  follow it with: {watch}\n{}", undo.run, left(&plan)), &json)?;
    Ok(Ending::Done)
}

/// Why it was not done, where the engine's words are about something else.
fn in_words(error: EngineError, context: &Context) -> CliError {
    match error {
        EngineError::NotOver { run, status } => {
            let rollback = context.hints_for(&run).run("rollback", &run);
            CliError::Refused(format!("run {run} is {status}, not over; take it back with `{rollback}`"))
        }
        other => other.into(),
    }
}

fn taken_back(plan: &UndoPlan) -> usize {
    plan.effects.iter().filter(|effect| effect.by.is_ok()).count()
}

fn plan_text(plan: &UndoPlan, context: &Context) -> String {
    let next = if taken_back(plan) == 0 {
        "there is nothing to take back\n".to_owned()
    } else {
        format!("do it with: {}\n", hint(&plan.run, context))
    };
    format!("{}{next}", effects_text(plan))
}

fn hint(run: &RunKey, context: &Context) -> String {
    context.hints_for(run).run("undo", run)
}

fn effects_text(plan: &UndoPlan) -> String {
    if plan.effects.is_empty() {
        return "the run had no effects\n".to_owned();
    }
    let row = |effect: &UndoEffect| {
        let how = match &effect.by {
            Ok(call) => format!("is taken back by {}", call.tool),
            Err(why) => format!("stays: {why}"),
        };
        [effect.step.to_string(), effect.target.clone(), how]
    };
    let rows: Vec<_> = plan.effects.iter().map(row).collect();
    table(["STEP", "EFFECT ON", "NEWEST FIRST"], &rows)
}

/// What will stay, and why; empty if nothing does.
fn left(plan: &UndoPlan) -> String {
    let line = |effect: &UndoEffect| {
        let why = effect.by.as_ref().err()?;
        Some(format!("{} on {} stays: {why}\n", effect.step, effect.target))
    };
    indented(&plan.effects.iter().filter_map(line).collect::<String>(), 2)
}

fn plan_json(plan: &UndoPlan) -> Value {
    let effect = |effect: &UndoEffect| {
        let (by, stays) = match &effect.by {
            Ok(call) => (json!({ "tool": call.tool, "with": call.with }), None),
            Err(why) => (Value::Null, Some(why.to_string())),
        };
        json!({ "step": effect.step, "seq": effect.seq, "target": effect.target, "by": by, "stays": stays })
    };
    json!({ "run": plan.run.run, "effects": plan.effects.iter().map(effect).collect::<Value>() })
}
