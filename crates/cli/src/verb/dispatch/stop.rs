//! `countersign dispatch stop`: nothing is begun any more.

use api_types::Stopped;
use engine::{Engine, HEARD_AFTER, Reach};
use serde_json::json;
use store::Store;
use views::hint::Hints;

use crate::context::Context;
#[cfg(feature = "aws")]
use crate::context::tools;
use crate::ending::Ending;
use crate::error::CliError;

use super::{again, reach, whom};

/// Stop beginning steps
///
/// Workers hear of it within two seconds. A step that is being worked on finishes. What comes in is still accepted,
/// and approvals can still be answered; it all waits until `dispatch start`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch stop --reason 'the database fails over'")]
pub(crate) struct Args {
    /// For all tenants
    #[arg(long)]
    all: bool,
    /// Why, in your words
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (reach, hints, stopped) = stopped(args, context).await?;
    let text = format!(
        "nothing is begun for {} any more, {HEARD_AFTER} from now at the latest; steps under way finish\n  \
         stopped by {} at {}: {}\n  start again with: {}",
        whom(&reach),
        stopped.by,
        stopped.at,
        stopped.reason,
        hints.line(&again("dispatch start", &reach)),
    );
    let json = json!({ "stopped": stopped, "heard_after_ms": HEARD_AFTER });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}

async fn stopped(args: &Args, context: &Context) -> Result<(Reach, Hints, Stopped), CliError> {
    if args.all {
        return Ok((Reach::All, context.hints(), of_all(args, context).await?));
    }
    let link = context.link_or_new()?;
    let stopped = link.client.stop_dispatch(&args.reason).await?;
    Ok((reach(&link), link.hints, stopped))
}

async fn of_all(args: &Args, context: &Context) -> Result<Stopped, CliError> {
    #[cfg(feature = "aws")]
    if let Some(engine) = context.engine_on_aws(tools())? {
        return of_all_on(&engine, args, context).await;
    }
    of_all_on(&context.engine()?, args, context).await
}

async fn of_all_on<S: Store>(
    engine: &Engine<S>,
    args: &Args,
    context: &Context,
) -> Result<Stopped, CliError> {
    Ok(engine.stop_dispatch(&Reach::All, &context.by_user(), &args.reason).await?.into())
}
