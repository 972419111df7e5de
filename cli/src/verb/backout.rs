//! `countersign backout`: stops dispatch and ends what is under way.

use std::io::{IsTerminal as _, Write as _};

use api::wire::{BackOut, BackedOut};
use engine::Reach;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use telling::counted;
use telling::hint::Hints;

use super::dispatch::{again, reach, whom};

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
    let (reach, hints, told) = if context.server()?.is_some() && !args.all {
        there(args, context).await?
    } else {
        Box::pin(here(args, context)).await?
    };
    if let Some(runs) = told.under_way {
        let text = format!(
            "{} of {} would be ended; nothing was done\n  do it with --yes",
            runs_in_words(runs),
            whom(&reach)
        );
        context.answer(&text, &json!({ "under_way": runs, "done": false }))?;
        return Ok(Ending::NotDone);
    }
    let way_back = hints.line(&again("dispatch start", &reach));
    let text = format!("{}\n  the way back: {way_back}", words(&told, &hints));
    context.answer(&text, &json!(told))?;
    Ok(Ending::done_if(told.done))
}

/// Asks the server.
async fn there(args: &Args, context: &Context) -> Result<(Reach, Hints, BackedOut), CliError> {
    let link = context.link()?;
    let wish = BackOut { reason: args.reason.clone(), dry_run: !args.yes };
    let told = link.client.back_out(&wish).await?;
    Ok((reach(&link), link.hints, told))
}

/// Does it on the store, and shows how far it is.
async fn here(args: &Args, context: &Context) -> Result<(Reach, Hints, BackedOut), CliError> {
    let engine = context.existing_engine()?;
    let reach = if args.all { Reach::All } else { Reach::Tenant(context.tenant.clone()) };
    if !args.yes {
        let told = BackedOut::would_be(engine.under_way(&reach).await?);
        return Ok((reach, context.hints(), told));
    }
    let shown = !context.json && std::io::stderr().is_terminal();
    let by = context.by_user();
    let told = engine.backout(&reach, &by, &args.reason, |so_far| {
        if shown {
            // A line that cannot be shown must not end a backout.
            let _ = write!(std::io::stderr(), "\r{} ended …", so_far.canceled);
        }
    });
    let told = told.await?;
    if shown {
        let _ = writeln!(std::io::stderr());
    }
    Ok((reach, context.hints(), told.into()))
}

fn runs_in_words(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "run")
}

fn words(told: &BackedOut, hints: &Hints) -> String {
    let runs = runs_in_words;
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
