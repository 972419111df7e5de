//! `countersign run pause`.

use api_types::RunActionResult;
use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::RunAction;

/// Pause a run
///
/// A running step finishes first. Continue the run with `run retry`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign run pause RUN --reason 'is this host right?'")]
pub(crate) struct Args {
    #[command(flatten)]
    action: RunAction,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.action.run)?;
    let paused =
        session.client.pause(&run.run, &args.action.reason).await.map_err(ApiSession::run_error(&run))?;
    let (result, words) = match paused.result {
        RunActionResult::Done | RunActionResult::AlreadyRequested | RunActionResult::RollingBack => {
            ("done", "the run is paused")
        }
        RunActionResult::Requested => ("requested", "a step is running; the run pauses when it has finished"),
    };
    let retry = session.hints.run("retry", &run);
    context.print(
        &format!("{words}\n  continue it with: {retry}"),
        &json!({ "run": run.run, "result": result }),
    )?;
    Ok(ExitStatus::Success)
}
