//! `countersign run pause`: holds a run for an operator.

use api_types::RunActionResult;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;

use super::directive::Directive;

/// Hold a run, so that somebody can look before it goes on
///
/// A step that is being worked on finishes first. `run retry` lets the run go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign run pause RUN --reason 'is this host right?'")]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Directive,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.wish.run)?;
    let paused = link.client.pause(&run.run, &args.wish.reason).await.map_err(Link::about(&run))?;
    let (result, words) = match paused.result {
        RunActionResult::Done | RunActionResult::AlreadyRequested => ("done", "the run is paused"),
        RunActionResult::Requested => {
            ("requested", "its step is being worked on; the run pauses when that has finished")
        }
    };
    let retry = link.hints.run("retry", &run);
    context.answer(
        &format!("{words}\n  let it go on with: {retry}"),
        &json!({ "run": run.run, "result": result }),
    )?;
    Ok(Ending::Done)
}
