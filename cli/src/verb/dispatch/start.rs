//! `countersign dispatch start`: what waits goes on.

use api::wire::DispatchStarted;
use engine::Reach;
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
    let (reach, DispatchStarted { announced, all }) = started(args, context).await?;
    let runs = counted(usize::try_from(announced).unwrap_or(usize::MAX), "run");
    let text = format!("steps are begun for {} again; {runs} can go on", whom(&reach));
    let note = all.as_ref().map(|stopped| {
        format!("\n  but dispatch is stopped for all tenants, by {}: {}", stopped.by, stopped.reason)
    });
    let json = json!({ "announced": announced, "all": all });
    context.answer(&(text + &note.unwrap_or_default()), &json)?;
    Ok(Ending::Done)
}

async fn started(args: &Args, context: &Context) -> Result<(Reach, DispatchStarted), CliError> {
    if args.all {
        let engine = context.engine()?;
        let announced = engine.start_dispatch(&Reach::All, &context.by_user()).await?;
        return Ok((Reach::All, DispatchStarted { announced, all: None }));
    }
    let link = context.link_or_new()?;
    Ok((reach(&link), link.client.start_dispatch().await?))
}
