//! `countersign queue dead-letters`.

use engine::Engine;
use serde_json::{Value, json};
use store::{DeadLetter, Store};

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;
use views::time::{rfc3339_millis, timestamp};

const EXAMPLES: &str = "\
Examples:
  countersign queue dead-letters --json
  countersign queue dead-letters --aws    use the account that the environment names

Queues are shared by all tenants, so this command works on a store, not through a server.";

/// List dead-letter messages
///
/// A message asks a worker to start or advance a run, to post an approval request, or to build evidence. A message
/// becomes a dead letter after too many failed deliveries, or if it cannot be read. The run is not lost: see its status
/// with `run show` and the cause in the logs of the workers.
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
    let letters = engine.store().dead_letters(args.limit).await?;
    let json: Value = letters
        .iter()
        .map(|letter| {
            json!({
                "run": letter.run().map(|run| &run.run),
                "tenant": letter.run().map(|run| &run.tenant),
                "queue": letter.queue.as_str(),
                "receive_count": letter.receives,
                "at": rfc3339_millis(letter.at),
            })
        })
        .collect();
    context.print(&text(&letters, context), &json!({ "dead_letters": json }))?;
    Ok(ExitStatus::Success)
}

fn text(letters: &[DeadLetter], context: &Context) -> String {
    if letters.is_empty() {
        return "no dead-letter messages".to_owned();
    }
    let rows: Vec<_> = letters
        .iter()
        .map(|letter| {
            let run = letter.run().map_or_else(|| "(unreadable)".to_owned(), ToString::to_string);
            [run, letter.receives.to_string(), timestamp(letter.at)]
        })
        .collect();
    let listed = table(["RUN", "RECEIVE COUNT", "DEAD-LETTERED AT"], &rows);
    format!("{listed}\nredrive them when the cause is fixed: {}\n", context.hints().line("queue redrive"))
}
