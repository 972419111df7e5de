//! `countersign run pause`: holds a run for an operator.

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

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
    let run = context.run(&args.wish.run);
    let engine = context.existing_engine()?;
    let paused = engine.pause(&run, &context.by_user(), &args.wish.reason).await?;
    let (result, words) = match paused {
        Some(_) => ("done", "the run is paused"),
        None => ("requested", "its step is being worked on; the run pauses when that has finished"),
    };
    let retry = context.hints_for(&run).run("retry", &run);
    context.answer(
        &format!("{words}\n  let it go on with: {retry}"),
        &json!({ "run": run.run, "result": result }),
    )?;
    Ok(Ending::Done)
}
