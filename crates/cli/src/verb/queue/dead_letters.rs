//! `countersign queue dead-letters`: messages that were delivered too often without getting anywhere.

use engine::Engine;
use serde_json::{Value, json};
use store::{DeadLetter, Store};

use crate::context::Context;
#[cfg(feature = "aws")]
use crate::context::tools;
use crate::ending::Ending;
use crate::error::CliError;
use views::table::table;
use views::time::moment;

const EXAMPLES: &str = "\
Examples:
  countersign queue dead-letters --json
  countersign queue dead-letters --aws    on the account that the environment names

Queues serve every tenant, so this is done on the store, and not through a server.";

/// Show messages that were given up
///
/// A message says that a run has something to do. One that was delivered many times and never got anywhere is
/// put aside: every worker that took it failed or died. The run itself is not lost; `run show` tells where it
/// stands, the workers' logs why.
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
    let letters = engine.store().dead_letters(args.limit).await?;
    let json: Value = letters
        .iter()
        .map(|letter| {
            json!({
                "run": letter.run.run,
                "tenant": letter.run.tenant,
                "queue": letter.queue.as_str(),
                "receives": letter.receives,
                "at": moment(letter.at),
            })
        })
        .collect();
    context.answer(&text(&letters, context), &json!({ "dead_letters": json }))?;
    Ok(Ending::Done)
}

fn text(letters: &[DeadLetter], context: &Context) -> String {
    if letters.is_empty() {
        return "no message was given up".to_owned();
    }
    let rows: Vec<_> = letters
        .iter()
        .map(|letter| [letter.run.to_string(), letter.receives.to_string(), moment(letter.at)])
        .collect();
    let listed = table(["RUN", "DELIVERED", "GIVEN UP AT"], &rows);
    format!("{listed}\nput them back once the cause is gone: {}\n", context.hints().line("queue redrive"))
}
