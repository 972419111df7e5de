//! `countersign run cancel`.

use api_types::RunActionResult;
use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::RunAction;

/// Cancel a run
///
/// If no step is running, the run ends at once. Otherwise the running step finishes first; if it had an effect and the
/// workflow defines a rollback for it, the effect is rolled back. `run show` then lists the state of every effect.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign run cancel RUN --reason 'wrong host'")]
pub(crate) struct Args {
    #[command(flatten)]
    action: RunAction,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.action.run)?;
    let canceled =
        session.client.cancel(&run.run, &args.action.reason).await.map_err(ApiSession::run_error(&run))?;
    let (result, words) = match canceled.result {
        RunActionResult::Done if canceled.status.is_terminal() => {
            ("done", format!("the run is {}", canceled.status))
        }
        RunActionResult::Done => ("done", "the run is being canceled".to_owned()),
        RunActionResult::Requested => {
            ("requested", "a step is running; the run ends when it has finished".to_owned())
        }
        RunActionResult::AlreadyRequested => {
            ("already_requested", "already requested; nothing changed".to_owned())
        }
        RunActionResult::RollingBack => {
            ("rolling_back", "the run is rolling back; it ends when the rollback is complete".to_owned())
        }
    };
    let show = session.hints.run("show", &run);
    context.print(&format!("{words}\n  see {show}"), &json!({ "run": run.run, "result": result }))?;
    Ok(ExitStatus::Success)
}
