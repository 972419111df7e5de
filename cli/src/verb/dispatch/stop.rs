//! `countersign dispatch stop`: nothing is begun any more.

use engine::HEARD_AFTER;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use telling::time::moment;

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
    let engine = context.engine()?;
    let reach = reach(args.all, context);
    let stopped = engine.stop_dispatch(&reach, &context.by_user(), &args.reason).await?;
    let text = format!(
        "nothing is begun for {} any more, {HEARD_AFTER} from now at the latest; steps under way finish\n  \
         stopped by {} at {}: {}\n  start again with: {}",
        whom(&reach),
        stopped.by.id,
        moment(stopped.at),
        stopped.reason,
        context.hints().line(&again("dispatch start", &reach)),
    );
    let json = json!({ "stopped": stopped, "heard_after_ms": HEARD_AFTER });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}
