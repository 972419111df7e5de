//! `countersign run watch`: follows a run, one line for each event.

use api_types::Run;
use domain::{RunKey, RunStatus};
use serde_json::{Value, json};

use super::ear::Ear;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use crate::progress::Progress;
use crate::run_name::RunName;
use crate::screen;
use views::EventDocument;

const EXAMPLES: &str = "\
Examples:
  countersign run watch RUN
  countersign run watch RUN --json        one JSON document per event and line

Exit codes: 0 if the run succeeded, 1 if it failed or was canceled, 4 if it is paused.";

/// Follow a run, event by event, until it is over or paused
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(&args.run)?;
    follow(&link, &run, context).await
}

/// Follows `run` until it is over or paused.
pub(super) async fn follow(link: &Link, run: &RunKey, context: &Context) -> Result<Ending, CliError> {
    let mut seen = link.client.run(&run.run).await.map_err(Link::about(run))?;
    let progress = Progress::new(seen.steps.len(), context);
    let mut ear = Ear::new(link, run, progress.is_shown());
    let mut last = None;
    loop {
        let mut entries = ear.behind(last).await?;
        if entries.is_empty() && !is_told(&seen, last) {
            entries = ear.page(last).await?;
        }
        for entry in &entries {
            progress.aside(|| context.answer(&entry.line(), &told(entry)))?;
            last = Some(entry.n);
        }
        // The rest of what was seen is on its way.
        if !entries.is_empty() && !is_told(&seen, last) {
            continue;
        }
        seen = ear.run().await?;
        progress.stands(seen.at.index(), &stands(&seen));
        if stops(seen.status) && is_told(&seen, last) {
            drop(progress);
            return conclude(link, run, seen.status, context);
        }
    }
}

/// Whether no event of the run as it was seen comes after event `last`.
fn is_told(seen: &Run, last: Option<u32>) -> bool {
    let told = last.map_or(0, |last| last as usize + 1);
    seen.chain.events.is_none_or(|events| events <= told)
}

/// Whether there is nothing more to be seen without somebody's word.
fn stops(status: RunStatus) -> bool {
    status.is_terminal() || status == RunStatus::Paused
}

/// The entry as the chain holds it; its hash is told where evidence is.
fn told(entry: &EventDocument) -> Value {
    json!(EventDocument { hash: None, ..entry.clone() })
}

/// `assign: waiting_approval`.
fn stands(run: &Run) -> String {
    let step = run.steps.get(run.at.index()).map(|step| format!("{}: ", step.id)).unwrap_or_default();
    format!("{step}{}", run.status)
}

fn conclude(link: &Link, run: &RunKey, status: RunStatus, context: &Context) -> Result<Ending, CliError> {
    let ending = match status {
        RunStatus::Succeeded => Ending::Done,
        RunStatus::Paused => Ending::Paused,
        _ => Ending::NotDone,
    };
    if !context.json && ending != Ending::Done {
        let show = link.hints.run("show", run);
        screen::text(&format!("why, and what can be done: {show}"))?;
    }
    Ok(ending)
}
