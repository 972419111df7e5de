//! `countersign run cancel`: stops a run.

use api_types::RunActionResult;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;

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
    let (link, run) = context.link_to(&args.wish.run)?;
    let canceled = link.client.cancel(&run.run, &args.wish.reason).await.map_err(Link::about(&run))?;
    let (result, words) = match canceled.result {
        RunActionResult::Done if canceled.status.is_terminal() => {
            ("done", format!("the run is {}", canceled.status))
        }
        RunActionResult::Done => ("done", "the run stops".to_owned()),
        RunActionResult::Requested => {
            ("requested", "its step is being worked on; the run stops when that has finished".to_owned())
        }
        RunActionResult::AlreadyRequested => {
            ("already_requested", "that was asked for before; nothing changed".to_owned())
        }
    };
    let show = link.hints.run("show", &run);
    context.answer(&format!("{words}\n  see {show}"), &json!({ "run": run.run, "result": result }))?;
    Ok(Ending::Done)
}
