//! `countersign dispatch stop`.

use api_types::Stopped;
use engine::{DispatchScope, STOP_VISIBLE_AFTER};
use serde_json::json;
use views::hint::CommandHints;

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::process::ExitStatus;

use super::{command_for, scope_text, session_scope};

/// Stop the dispatch of steps
///
/// Workers stop starting steps within two seconds; running steps finish. New requests and approvals are still accepted
/// and wait until `dispatch start`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch stop --reason 'the database fails over'")]
pub(crate) struct Args {
    /// Apply to all tenants
    #[arg(long)]
    all: bool,
    /// The reason
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (scope, hints, stopped) = stop(args, context).await?;
    let text = format!(
        "dispatch stops for {} within {STOP_VISIBLE_AFTER}; running steps finish\n  \
         stopped by {} at {}: {}\n  start it again with: {}",
        scope_text(&scope),
        stopped.by,
        stopped.at,
        stopped.reason,
        hints.line(&command_for("dispatch start", &scope)),
    );
    let json = json!({ "stopped": stopped, "effective_within_ms": STOP_VISIBLE_AFTER });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}

async fn stop(args: &Args, context: &Context) -> Result<(DispatchScope, CommandHints, Stopped), CliError> {
    if args.all {
        return Ok((DispatchScope::All, context.hints(), stop_all(args, context).await?));
    }
    let session = context.connect_or_create()?;
    let stopped = session.client.stop_dispatch(&args.reason).await?;
    Ok((session_scope(&session), session.hints, stopped))
}

async fn stop_all(args: &Args, context: &Context) -> Result<Stopped, CliError> {
    let by = context.by_user();
    let stopped = with_store!(context.any_store(IfMissing::Create)?, |store| {
        command_engine(store, default_tools())?
            .operations()
            .stop_dispatch(&DispatchScope::All, &by, &args.reason)
            .await?
    });
    Ok(stopped.into())
}
