//! `countersign dispatch start`.

use api_types::DispatchStarted;
use engine::{DispatchScope, Engine};
use serde_json::json;
use store::Store;

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::progress::StatusLine;

use super::{runs_text, scope_text, session_scope};

/// Start the dispatch of steps after a stop or a backout
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch start --all")]
pub(crate) struct Args {
    /// Apply to all tenants; a tenant that was stopped separately stays stopped
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (scope, DispatchStarted { enqueued, all_tenants, .. }) = start(args, context).await?;
    let text =
        format!("dispatch is running for {}; {} can continue", scope_text(&scope), runs_text(enqueued));
    let note = all_tenants.as_ref().map(|stopped| {
        format!("\n  dispatch is still stopped for all tenants by {}: {}", stopped.by, stopped.reason)
    });
    let json = json!({ "enqueued": enqueued, "all_tenants": all_tenants });
    context.print(&(text + &note.unwrap_or_default()), &json)?;
    Ok(ExitStatus::Success)
}

async fn start(args: &Args, context: &Context) -> Result<(DispatchScope, DispatchStarted), CliError> {
    if args.all {
        let enqueued = start_all(context).await?;
        return Ok((DispatchScope::All, DispatchStarted { enqueued, all_tenants: None, next: None }));
    }
    let session = context.connect_or_create()?;
    let mut status_line = StatusLine::new(context);
    let mut next = None;
    loop {
        let result = session.client.start_dispatch(next).await?;
        if result.next.is_none() {
            return Ok((session_scope(&session), result));
        }
        status_line.set(&format!("{} can continue", runs_text(result.enqueued)));
        next = result.next;
    }
}

async fn start_all(context: &Context) -> Result<u64, CliError> {
    with_store!(context.any_store(IfMissing::Create)?, |store| {
        start_all_on(&command_engine(store, default_tools())?, context).await
    })
}

async fn start_all_on<S: Store>(engine: &Engine<S>, context: &Context) -> Result<u64, CliError> {
    let by = context.by_user();
    let mut status_line = StatusLine::new(context);
    let mut done = None;
    loop {
        let (enqueued, rest) = engine.operations().start_part(&DispatchScope::All, &by, done).await?;
        if rest.is_none() {
            return Ok(enqueued);
        }
        status_line.set(&format!("{} can continue", runs_text(enqueued)));
        done = rest;
    }
}
