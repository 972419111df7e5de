//! `countersign run show`: everything there is to know about a run.

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use crate::run_name::RunName;
use serde_json::json;
use views::document_text;

const EXAMPLES: &str = "\
Examples:
  countersign run show run-5d41402abc4b2a76b9719d911017c592
  countersign run show RUN --json | jq '.steps[] | {id, status, output}'";

/// Show where a run stands, why it waits and what to type to end that
///
/// Every step with its status, attempts and workers; what went wrong; what became of the effects of a run that
/// was stopped; and whether the chain of events, each of which is hashed together with the one before it, still
/// holds. If it does not, the exit code is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.run)?;
    let mut seen = link.client.run(&run.run).await.map_err(Link::about(&run))?;
    for way in seen.waits.iter_mut().flat_map(|waits| &mut waits.ends) {
        // The API does not know how this program was told where it is.
        way.command = way.command.take().map(|command| link.hints.spelled_out(&command));
    }
    context.answer(&document_text(&seen, Link::now()), &json!(seen))?;
    Ok(Ending::done_if(seen.chain.verified))
}
