//! `countersign run undo`.

use api_types::{UndoCall, UndoEffect, UndoPlan};
use client::ClientError;
use domain::RunKey;
use domain::failure::bounded;
use serde_json::{Value, json};

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::run_name::RunName;
use views::counted;
use views::table::{indented, table};

const EXAMPLES: &str = "\
Examples:
  countersign run undo RUN --plan      show which effects would be undone, and which not and why
  countersign run undo RUN             start the undo

A finished run never changes. The undo is a new run that reverts the effects, newest first. Policy
is evaluated for each of its actions, approvals may be required, and it has its own receipts and
evidence. Repeating the command returns the same run. For a run that has not ended, use `run
rollback`.";

/// How much of a field's value the plan shows; `--json` shows all of it.
const FIELD_CHARS_MAX: usize = 60;

/// Undo the effects of a finished run, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The finished run
    run: RunName,
    /// Show the plan without starting the undo
    #[arg(long)]
    plan: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.run)?;
    let plan = session.client.undo_plan(&run.run).await.map_err(|error| undo_error(error, &run, &session))?;
    if args.plan {
        context.print(&plan_text(&plan, &run, &session), &json!(plan))?;
        return Ok(ExitStatus::Success);
    }
    if undoable_count(&plan) == 0 {
        return Err(CliError::Refused(format!("nothing to undo\n{}", effects_text(&plan))));
    }
    let started = session.client.undo(&run.run).await.map_err(ApiSession::run_error(&run))?;
    let undo = RunKey { tenant: run.tenant.clone(), run: started.run };
    let summary = if started.new {
        format!("started: undoes {} of {}", counted(undoable_count(&plan), "effect"), run.run)
    } else {
        format!("the undo of {} is already started; nothing changed", run.run)
    };
    let watch = session.hints.run("watch", &undo);
    let mut json = json!(plan);
    json["undo"] = json!(undo.run);
    json["new"] = started.new.into();
    context.print(
        &format!("{}\n  {summary}\n  follow it with: {watch}\n{}", undo.run, remaining_text(&plan)),
        &json,
    )?;
    Ok(ExitStatus::Success)
}

fn undo_error(error: ClientError, run: &RunKey, session: &ApiSession) -> CliError {
    match error.problem() {
        Some(problem) if problem.code == "RUN_NOT_FINISHED" => {
            let rollback = session.hints.run("rollback", run);
            CliError::Refused(format!("{problem}; roll it back with `{rollback}`"))
        }
        _ => ApiSession::run_error(run)(error),
    }
}

fn undoable_count(plan: &UndoPlan) -> usize {
    plan.effects.iter().filter(|effect| effect.call.is_some()).count()
}

fn plan_text(plan: &UndoPlan, run: &RunKey, session: &ApiSession) -> String {
    let next = if undoable_count(plan) == 0 {
        "nothing to undo\n".to_owned()
    } else {
        format!("start the undo with: {}\n", session.hints.run("undo", run))
    };
    format!("{}{next}", effects_text(plan))
}

fn effects_text(plan: &UndoPlan) -> String {
    if plan.effects.is_empty() {
        return "the run had no effects\n".to_owned();
    }
    let row = |effect: &UndoEffect| {
        let how = match (&effect.call, &effect.skip_reason) {
            (Some(call), _) => format!("undone by {}{}", call.tool, fields_text(call)),
            (None, Some(why)) => format!("stays: {why}"),
            (None, None) => "stays".to_owned(),
        };
        [effect.step.to_string(), effect.target.clone(), how]
    };
    let rows: Vec<_> = plan.effects.iter().map(row).collect();
    table(["STEP", "TARGET", "UNDO"], &rows)
}

/// The fields of the call, each on the same line.
fn fields_text(call: &UndoCall) -> String {
    let field = |(name, value): (&String, &Value)| {
        format!("{name}: {}", bounded(&value_text(value), FIELD_CHARS_MAX))
    };
    let fields: Vec<String> = call.with.iter().map(field).collect();
    if fields.is_empty() { String::new() } else { format!(" with {}", fields.join(", ")) }
}

/// The value as text; a string without quotes.
fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The effects that stay, with the reason.
fn remaining_text(plan: &UndoPlan) -> String {
    let line = |effect: &UndoEffect| {
        let why = effect.skip_reason.as_ref()?;
        Some(format!("{} on {} stays: {why}\n", effect.step, effect.target))
    };
    indented(&plan.effects.iter().filter_map(line).collect::<String>(), 2)
}
