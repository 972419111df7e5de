//! `countersign run show`.

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::run_name::RunName;
use serde_json::json;
use views::document_text;

const EXAMPLES: &str = "\
Examples:
  countersign run show run-5d41402abc4b2a76b9719d911017c592
  countersign run show RUN --json | jq '.steps[] | {id, status, output}'";

/// Show the status of a run, what it waits for and which commands continue it
///
/// Shows each step with its status, attempts and workers, the errors, the state of the effects of a canceled run, and
/// whether the hash chain of events is intact. If the chain is broken, the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.run)?;
    let mut document = session.client.run(&run.run).await.map_err(ApiSession::run_error(&run))?;
    for action in document.waiting.iter_mut().flat_map(|wait| &mut wait.next_actions) {
        // The API does not know the options with which this program reaches it.
        action.command = action.command.take().map(|command| session.hints.spelled_out(&command));
    }
    context.print(&document_text(&document, ApiSession::now()), &json!(document))?;
    Ok(ExitStatus::success_if(document.chain.verified))
}
