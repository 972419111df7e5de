//! `countersign run rollback`.

use domain::{EventBody, StepId, StepSeq};
use serde_json::json;
use views::EventDocument;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::RunAction;

/// Roll back the effects of a run, newest first, and end it
///
/// Every finished step that has a `rollback` in the workflow is rolled back; the run then ends as canceled. With
/// `--step`, that step and the later ones are rolled back, and the effects of earlier steps stay. A running step must
/// finish first: use `run pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign run rollback RUN --reason 'wrong customer'")]
pub(crate) struct Args {
    #[command(flatten)]
    action: RunAction,
    /// The first step of the workflow to roll back [default: all]
    #[arg(long, value_name = "STEP")]
    step: Option<StepId>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.action.run)?;
    let rolled_back = session.client.roll_back(&run.run, &args.action.reason, args.step.as_ref()).await;
    rolled_back.map_err(ApiSession::run_error(&run))?;
    let first = session.chain(&run.run).await?.iter().rev().find_map(rollback_start);
    let steps = session.client.run(&run.run).await?.steps;
    let first = first.and_then(|seq| steps.into_iter().find(|step| step.seq == seq));
    let step = first.map(|step| step.id);
    let name = step.as_ref().map_or_else(|| "the newest".to_owned(), ToString::to_string);
    let watch = session.hints.run("watch", &run);
    context.print(
        &format!("the run rolls back its effects, starting with step {name}\n  follow it with: {watch}"),
        &json!({ "run": run.run, "result": "rolling_back", "first_step": step }),
    )?;
    Ok(ExitStatus::Success)
}

/// The first step of the rollback, if the event starts one.
fn rollback_start(entry: &EventDocument) -> Option<StepSeq> {
    match entry.event.body {
        EventBody::RollbackStarted { from, .. } => Some(from),
        _ => None,
    }
}
