//! `countersign run rollback`: takes a run's effects back.

use domain::{EventBody, StepSeq};
use serde_json::json;
use views::EventDocument;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;

use super::directive::Directive;

/// Take a run's effects back, newest first, and stop it
///
/// Every finished step whose workflow says how is taken back; the run then ends as canceled. A step that is
/// being worked on must finish first: `run pause` waits for that.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign run rollback RUN --reason 'wrong customer'")]
pub(crate) struct Args {
    #[command(flatten)]
    wish: Directive,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.wish.run)?;
    link.client.roll_back(&run.run, &args.wish.reason).await.map_err(Link::about(&run))?;
    let begun = link.chain(&run.run).await?.iter().rev().find_map(began_with);
    let steps = link.client.run(&run.run).await?.steps;
    let first = begun.and_then(|seq| steps.into_iter().find(|step| step.seq == seq));
    let step = first.map(|step| step.id);
    let name = step.as_ref().map_or_else(|| "the newest".to_owned(), ToString::to_string);
    let watch = link.hints.run("watch", &run);
    context.answer(
        &format!("the run takes its effects back, beginning with step {name}\n  follow it with: {watch}"),
        &json!({ "run": run.run, "result": "rolling_back", "first": step }),
    )?;
    Ok(Ending::Done)
}

/// The step that taking back began with, if the event says so.
fn began_with(entry: &EventDocument) -> Option<StepSeq> {
    match entry.event.body {
        EventBody::RollbackStarted { from, .. } => Some(from),
        _ => None,
    }
}
