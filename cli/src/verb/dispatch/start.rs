//! `countersign dispatch start`: what waits goes on.

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use telling::counted;

use super::{reach, whom};

/// Begin steps again, after a stop or a backout
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch start --all")]
pub(crate) struct Args {
    /// For all tenants; a tenant that was stopped on its own stays stopped
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let engine = context.engine()?;
    let reach = reach(args.all, context);
    let announced = engine.start_dispatch(&reach, &context.by_user()).await?;
    let runs = counted(usize::try_from(announced).unwrap_or(usize::MAX), "run");
    let text = format!("steps are begun for {} again; {runs} can go on", whom(&reach));
    let still = if args.all { None } else { engine.fleet_stopped().await? };
    let note = still.as_ref().map(|stopped| {
        format!("\n  but dispatch is stopped for all tenants, by {}: {}", stopped.by.id, stopped.reason)
    });
    let json = json!({ "announced": announced, "fleet_stopped": still });
    context.answer(&(text + &note.unwrap_or_default()), &json)?;
    Ok(Ending::Done)
}
