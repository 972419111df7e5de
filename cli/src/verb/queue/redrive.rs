//! `countersign queue redrive`: puts messages that were given up back into the queue.

use serde_json::json;
use store::Queue as _;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// Put messages that were given up back into the queue
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign queue redrive --limit 10")]
pub(crate) struct Args {
    /// At most this many, oldest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let engine = context.existing_engine()?;
    let moved = engine.store().redrive(args.limit).await?;
    let text = match moved {
        0 => "no message was given up; nothing to put back".to_owned(),
        1 => "1 message is back in the queue".to_owned(),
        many => format!("{many} messages are back in the queue"),
    };
    context.answer(&text, &json!({ "redriven": moved }))?;
    Ok(Ending::Done)
}
