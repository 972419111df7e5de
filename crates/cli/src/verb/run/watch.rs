//! `countersign run watch`.

use api_types::Run;
use domain::{RunKey, RunStatus};
use serde_json::{Value, json};

use super::follower::RunFollower;
use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::progress::Progress;
use crate::run_name::RunName;
use crate::screen;
use views::EventDocument;

const EXAMPLES: &str = "\
Examples:
  countersign run watch RUN
  countersign run watch RUN --json        print one JSON document per event and line

Exit codes: 0 if the run succeeded, 1 if it failed or was canceled, 4 if it is paused.";

/// Follow the events of a run until it ends or pauses
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.run)?;
    follow(&session, &run, context).await
}

/// Follows `run` until it ends or pauses.
pub(super) async fn follow(
    session: &ApiSession,
    run: &RunKey,
    context: &Context,
) -> Result<ExitStatus, CliError> {
    let mut document = session.client.run(&run.run).await.map_err(ApiSession::run_error(run))?;
    let progress = Progress::new(document.steps.len(), context);
    let mut follower = RunFollower::new(session, run, progress.is_shown());
    let mut last = None;
    loop {
        let mut entries = follower.next_events(last).await?;
        if entries.is_empty() && !is_complete(&document, last) {
            entries = follower.events_after(last).await?;
        }
        for entry in &entries {
            progress.suspend(|| context.print(&entry.line(), &to_json(entry)))?;
            last = Some(entry.n);
        }
        // More events up to the last read of the run will follow.
        if !entries.is_empty() && !is_complete(&document, last) {
            continue;
        }
        document = follower.run().await?;
        progress.set(document.current_step.index(), &position(&document));
        if has_stopped(document.status) && is_complete(&document, last) {
            drop(progress);
            return exit_status(session, run, document.status, context);
        }
    }
}

/// Whether `last` is the last event of `run`.
fn is_complete(run: &Run, last: Option<u32>) -> bool {
    let printed = last.map_or(0, |last| last as usize + 1);
    run.chain.events.is_none_or(|events| events <= printed)
}

/// Whether the run does not continue without an operator.
fn has_stopped(status: RunStatus) -> bool {
    status.is_terminal() || status == RunStatus::Paused
}

/// The event without its hash, which belongs to the evidence.
fn to_json(entry: &EventDocument) -> Value {
    json!(EventDocument { hash: None, ..entry.clone() })
}

/// `assign: waiting_approval`.
fn position(run: &Run) -> String {
    let step =
        run.steps.get(run.current_step.index()).map(|step| format!("{}: ", step.id)).unwrap_or_default();
    format!("{step}{}", run.status)
}

fn exit_status(
    session: &ApiSession,
    run: &RunKey,
    status: RunStatus,
    context: &Context,
) -> Result<ExitStatus, CliError> {
    let status_code = match status {
        RunStatus::Succeeded => ExitStatus::Success,
        RunStatus::Paused => ExitStatus::Paused,
        _ => ExitStatus::Failure,
    };
    if !context.json && status_code != ExitStatus::Success {
        let show = session.hints.run("show", run);
        screen::text(&format!("see the cause and the next commands with: {show}"))?;
    }
    Ok(status_code)
}
