//! `countersign run watch`: follows a run, one line for each event.

use std::time::Duration;

use domain::chain::StoredEvent;
use domain::{Event, Plan, RunKey, RunRecord, RunStatus};
use engine::{Engine, EngineError};
use store::{Ledger as _, SqliteStore, StoreError};
use tokio::time::sleep;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::progress::Progress;
use crate::run_name::RunName;
use crate::screen;
use telling::{event_json, event_line};

/// Soon enough for a person, seldom enough for the store.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A page of events; a run that has more is read in several.
const PAGE: u32 = 256;

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
    follow(&context.existing_engine()?, &context.run(&args.run), context).await
}

/// Follows `run` until it is over or paused.
pub(super) async fn follow(
    engine: &Engine<SqliteStore>,
    run: &RunKey,
    context: &Context,
) -> Result<Ending, CliError> {
    let plan = engine.inspect(run).await?.plan().clone();
    let progress = Progress::new(plan.steps.len(), context);
    let mut next = 0;
    loop {
        // The record first: what it counts is then there to be read.
        let record = load(engine, run).await?;
        while next < record.events {
            let page = engine.store().events(run, next, PAGE).await?;
            for entry in &page {
                let event = read(next, entry)?;
                progress.aside(|| tell(&plan, &event, context))?;
                next += 1;
            }
        }
        progress.stands(record.at.index(), &stands(&plan, &record));
        if record.status.is_terminal() || record.status == RunStatus::Paused {
            drop(progress);
            return conclude(&record, context);
        }
        sleep(LOOK_EVERY).await;
    }
}

/// `assign: waiting_approval`.
fn stands(plan: &Plan, record: &RunRecord) -> String {
    let step = plan.step(record.at).map(|step| format!("{}: ", step.id)).unwrap_or_default();
    format!("{step}{}", record.status)
}

async fn load(engine: &Engine<SqliteStore>, run: &RunKey) -> Result<RunRecord, CliError> {
    let record = engine.store().load(run).await?;
    record.ok_or_else(|| EngineError::NoRun { run: run.clone() }.into())
}

fn read(n: u32, entry: &StoredEvent) -> Result<Event, CliError> {
    let event = serde_json::from_slice(&entry.canonical);
    event.map_err(|error| StoreError::broken("read an event", format!("event {n}: {error}")).into())
}

fn tell(plan: &Plan, event: &Event, context: &Context) -> Result<(), CliError> {
    context.answer(&event_line(plan, event), &event_json(plan, event))
}

fn conclude(record: &RunRecord, context: &Context) -> Result<Ending, CliError> {
    let ending = match record.status {
        RunStatus::Succeeded => Ending::Done,
        RunStatus::Paused => Ending::Paused,
        _ => Ending::NotDone,
    };
    if !context.json && ending != Ending::Done {
        let show = context.hints_for(&record.key).run("show", &record.key);
        screen::text(&format!("why, and what can be done: {show}"))?;
    }
    Ok(ending)
}
