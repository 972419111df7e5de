//! `countersign run cancel`: stops a run.

use domain::command::{Advanced, Canceling};
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

use super::directive::Directive;

/// Stop a run
///
/// Where nothing is under way the run stops at once. A step that is being worked on finishes first; if it
/// changed something outside and the workflow says how to take that back, it is taken back. `run show` then
/// lists what became of every effect.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign run cancel RUN --reason 'wrong host'")]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Directive,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let run = context.run(&args.wish.run);
    let engine = context.existing_engine()?;
    let canceling = engine.cancel(&run, &context.by_user(), &args.wish.reason).await?;
    let (result, words) = match canceling {
        Canceling::Now(Advanced::Over(status)) => ("done", format!("the run is {status}")),
        Canceling::Now(Advanced::Ready | Advanced::Paused) => ("done", "the run stops".to_owned()),
        Canceling::Requested => {
            ("requested", "its step is being worked on; the run stops when that has finished".to_owned())
        }
        Canceling::Before => ("before", "that was asked for before; nothing changed".to_owned()),
    };
    let show = context.hints_for(&run).run("show", &run);
    context.answer(&format!("{words}\n  see {show}"), &json!({ "run": run.run, "result": result }))?;
    Ok(Ending::Done)
}
