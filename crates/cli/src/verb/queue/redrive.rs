//! `countersign queue redrive`.

use engine::Engine;
use serde_json::json;
use store::Store;

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::process::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  countersign queue redrive --limit 10
  countersign queue redrive --aws         use the account that the environment names

Queues are shared by all tenants, so this command works on a store, not through a server.";

/// Move dead-letter messages back to their queue
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The maximum number of messages, oldest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    with_store!(context.any_store(IfMissing::Fail)?, |store| {
        run_on(&command_engine(store, default_tools())?, args, context).await
    })
}

async fn run_on<S: Store>(
    engine: &Engine<S>,
    args: &Args,
    context: &Context,
) -> Result<ExitStatus, CliError> {
    let moved = engine.operations().redrive(args.limit, &context.by_user()).await?;
    let text = match moved {
        0 => "no dead-letter messages".to_owned(),
        1 => "1 message redriven".to_owned(),
        many => format!("{many} messages redriven"),
    };
    context.print(&text, &json!({ "redriven": moved }))?;
    Ok(ExitStatus::Success)
}
