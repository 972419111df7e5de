//! `countersign backout`: stops dispatch and ends all runs.

use api_types::{BackOutRequest, BackedOut};
use engine::{Backout, DispatchScope, Engine};
use serde_json::json;
use store::Store;

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::progress::StatusLine;
use views::hint::CommandHints;

use super::dispatch::{command_for, runs_text, scope_text, session_scope};

const EXAMPLES: &str = "\
Examples:
  countersign backout --reason 'wrong release'          count the runs that would end
  countersign backout --reason 'wrong release' --yes    end them
  countersign dispatch start                            resume normal operation

A backout can be repeated and continues where it stopped. The exit code is 1 until every run has
ended.";

/// Stop dispatch and end every unfinished run
///
/// A run without a running step ends at once with the reason `backout`. A running step finishes first; if it had an
/// effect and the workflow defines a rollback for it, the effect is rolled back. A run that is paused because the
/// outcome of an effect is unknown stays paused for an operator. New requests are accepted and wait.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Apply to all tenants
    #[arg(long)]
    all: bool,
    /// The reason, which is stored with every run permanently
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// End the runs; without this option the command only counts them
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (scope, hints, result) = if args.all {
        (DispatchScope::All, context.hints(), back_out_all(args, context).await?)
    } else {
        back_out_tenant(args, context).await?
    };
    if let Some(count) = result.unfinished {
        let text = format!(
            "{} of {} would end; nothing changed\n  add --yes to end them",
            runs_text(count),
            scope_text(&scope)
        );
        context.print(&text, &json!({ "unfinished": count, "done": false }))?;
        return Ok(ExitStatus::Failure);
    }
    let resume = hints.line(&command_for("dispatch start", &scope));
    let text = format!("{}\n  resume with: {resume}", render(&result, &hints));
    context.print(&text, &json!(result))?;
    Ok(ExitStatus::success_if(result.done))
}

/// Calls the API page by page and shows progress.
async fn back_out_tenant(
    args: &Args,
    context: &Context,
) -> Result<(DispatchScope, CommandHints, BackedOut), CliError> {
    let session = context.connect()?;
    let request = BackOutRequest { reason: args.reason.clone(), dry_run: !args.yes };
    let mut status_line = StatusLine::new(context);
    let mut next = None;
    loop {
        let result = session.client.back_out(&request, next).await?;
        if result.next.is_none() {
            return Ok((session_scope(&session), session.hints, result));
        }
        status_line.set(&progress(&result));
        next = result.next;
    }
}

async fn back_out_all(args: &Args, context: &Context) -> Result<BackedOut, CliError> {
    with_store!(context.any_store(IfMissing::Fail)?, |store| {
        Box::pin(back_out_all_on(&command_engine(store, default_tools())?, args, context)).await
    })
}

/// Backs out all tenants on the store and shows progress.
async fn back_out_all_on<S: Store>(
    engine: &Engine<S>,
    args: &Args,
    context: &Context,
) -> Result<BackedOut, CliError> {
    if !args.yes {
        return Ok(BackedOut::dry_run(engine.operations().count_active_runs(&DispatchScope::All).await?));
    }
    let mut status_line = StatusLine::new(context);
    let show = |result: &Backout| status_line.set(&progress(&(*result).into()));
    Ok(engine.operations().backout(&DispatchScope::All, &context.by_user(), &args.reason, show).await?.into())
}

fn progress(result: &BackedOut) -> String {
    match result.unfinished {
        Some(count) => format!("{} counted", runs_text(count)),
        None => format!("{} ended", runs_text(result.canceled)),
    }
}

fn render(result: &BackedOut, hints: &CommandHints) -> String {
    let mut lines = vec![format!("{} ended", runs_text(result.canceled))];
    if result.canceling > 0 {
        lines.push(format!(
            "  {} still finishing a step or rolling back; a worker must be running",
            runs_text(result.canceling)
        ));
    }
    if result.needs_operator > 0 {
        let list = hints.line("run list --status paused");
        lines.push(format!(
            "  {} paused because the outcome of an effect is unknown: {list}",
            runs_text(result.needs_operator)
        ));
    }
    if result.remaining > 0 {
        lines.push(format!("  {} not reached; repeat the command", runs_text(result.remaining)));
    }
    lines.join("\n")
}
