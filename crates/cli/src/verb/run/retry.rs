//! `countersign run retry`: lets a paused run go on.

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;

use super::directive::Directive;

/// Let a paused run go on with its current step
///
/// If the run is paused because nobody knows whether an effect happened, this is your word that it may be done
/// again. Look at the other system first: if it did happen, it then happens twice. The step gets all its
/// attempts anew.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  countersign run retry RUN --reason 'checked with the provider: it did not happen'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Directive,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.wish.run)?;
    link.client.retry(&run.run, &args.wish.reason).await.map_err(Link::about(&run))?;
    let watch = link.hints.run("watch", &run);
    context.answer(
        &format!("the run goes on with its current step\n  follow it with: {watch}"),
        &json!({ "run": run.run, "result": "resumed" }),
    )?;
    Ok(Ending::Done)
}
