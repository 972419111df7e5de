//! `countersign run retry`.

use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::RunAction;

/// Continue a paused run with its current step
///
/// If the run is paused because the outcome of an effect is unknown, this command authorizes the worker to repeat the
/// effect. Check the external system first: if the effect happened, it happens twice. A repeated opaque effect needs an
/// approval by another user. The attempts of the step are counted from zero again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  countersign run retry RUN --reason 'checked with the provider: it did not happen'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    action: RunAction,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.action.run)?;
    session.client.retry(&run.run, &args.action.reason).await.map_err(ApiSession::run_error(&run))?;
    let watch = session.hints.run("watch", &run);
    context.print(
        &format!("the run continues with its current step\n  follow it with: {watch}"),
        &json!({ "run": run.run, "result": "resumed" }),
    )?;
    Ok(ExitStatus::Success)
}
