//! `countersign queue redrive`: puts messages that were given up back into the queue.

use engine::Engine;
use serde_json::json;
use store::Store;

use crate::context::Context;
#[cfg(feature = "aws")]
use crate::context::tools;
use crate::ending::Ending;
use crate::error::CliError;

const EXAMPLES: &str = "\
Examples:
  countersign queue redrive --limit 10
  countersign queue redrive --aws         on the account that the environment names

Queues serve every tenant, so this is done on the store, and not through a server.";

/// Put messages that were given up back into the queue
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// At most this many, oldest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    #[cfg(feature = "aws")]
    if let Some(engine) = context.engine_on_aws(tools())? {
        return run_on(&engine, args, context).await;
    }
    run_on(&context.existing_engine()?, args, context).await
}

async fn run_on<S: Store>(engine: &Engine<S>, args: &Args, context: &Context) -> Result<Ending, CliError> {
    let moved = engine.store().redrive(args.limit).await?;
    let text = match moved {
        0 => "no message was given up; nothing to put back".to_owned(),
        1 => "1 message is back in the queue".to_owned(),
        many => format!("{many} messages are back in the queue"),
    };
    context.answer(&text, &json!({ "redriven": moved }))?;
    Ok(Ending::Done)
}
