//! `countersign backout`: stops dispatch and ends what is under way.

use api_types::{BackOut, BackedOut};
use engine::{Backout, Engine, Reach};
use serde_json::json;
use store::Store;

use crate::context::Context;
#[cfg(feature = "aws")]
use crate::context::tools;
use crate::ending::Ending;
use crate::error::CliError;
use crate::so_far::SoFar;
use views::hint::Hints;

use super::dispatch::{again, reach, runs, whom};

const EXAMPLES: &str = "\
Examples:
  countersign backout --reason 'wrong release'          how many runs would be ended?
  countersign backout --reason 'wrong release' --yes    end them
  countersign dispatch start                            the way back

Doing it again goes on where it was left. The exit code is 1 while something is not over yet.";

/// Stop dispatch and end every run that is under way
///
/// A run that nobody works on ends at once, with the reason `backout`. A step that is being worked on finishes; if it
/// changed something outside and the workflow says how to take that back, it is taken back. A run that is paused over
/// an effect which nobody can account for is left to a person. What comes in is still accepted and waits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// For all tenants
    #[arg(long)]
    all: bool,
    /// Why, in your words; kept with every run for ever
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Do it; without this it only says what would be ended
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (reach, hints, told) = if args.all {
        (Reach::All, context.hints(), of_all(args, context).await?)
    } else {
        of_one(args, context).await?
    };
    if let Some(count) = told.under_way {
        let text = format!(
            "{} of {} would be ended; nothing was done\n  do it with --yes",
            runs(count),
            whom(&reach)
        );
        context.answer(&text, &json!({ "under_way": count, "done": false }))?;
        return Ok(Ending::NotDone);
    }
    let way_back = hints.line(&again("dispatch start", &reach));
    let text = format!("{}\n  the way back: {way_back}", words(&told, &hints));
    context.answer(&text, &json!(told))?;
    Ok(Ending::done_if(told.done))
}

/// Asks the API, a piece after the other, and shows how far it is.
async fn of_one(args: &Args, context: &Context) -> Result<(Reach, Hints, BackedOut), CliError> {
    let link = context.link()?;
    let wish = BackOut { reason: args.reason.clone(), dry_run: !args.yes };
    let mut so_far = SoFar::new(context);
    let mut next = None;
    loop {
        let told = link.client.back_out(&wish, next).await?;
        if told.next.is_none() {
            return Ok((reach(&link), link.hints, told));
        }
        so_far.say(&in_short(&told));
        next = told.next;
    }
}

async fn of_all(args: &Args, context: &Context) -> Result<BackedOut, CliError> {
    #[cfg(feature = "aws")]
    if let Some(engine) = context.engine_on_aws(tools())? {
        return Box::pin(of_all_on(&engine, args, context)).await;
    }
    Box::pin(of_all_on(&context.existing_engine()?, args, context)).await
}

/// Does it on the store, and shows how far it is.
async fn of_all_on<S: Store>(
    engine: &Engine<S>,
    args: &Args,
    context: &Context,
) -> Result<BackedOut, CliError> {
    if !args.yes {
        return Ok(BackedOut::would_be(engine.under_way(&Reach::All).await?));
    }
    let mut so_far = SoFar::new(context);
    let show = |told: &Backout| so_far.say(&in_short(&(*told).into()));
    Ok(engine.backout(&Reach::All, &context.by_user(), &args.reason, show).await?.into())
}

fn in_short(told: &BackedOut) -> String {
    match told.under_way {
        Some(count) => format!("{} counted", runs(count)),
        None => format!("{} ended", runs(told.canceled)),
    }
}

fn words(told: &BackedOut, hints: &Hints) -> String {
    let mut lines = vec![format!("{} ended", runs(told.canceled))];
    if told.finishing > 0 {
        lines.push(format!(
            "  {} still finishing a step or taking something back; a worker must be running",
            runs(told.finishing)
        ));
    }
    if told.need_a_person > 0 {
        let list = hints.line("run list --status paused");
        lines.push(format!(
            "  {} paused over an effect that nobody can account for: {list}",
            runs(told.need_a_person)
        ));
    }
    if told.left > 0 {
        lines.push(format!("  {} could not be asked; do it again", runs(told.left)));
    }
    lines.join("\n")
}
