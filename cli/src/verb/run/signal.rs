//! `countersign run signal`: an event from outside reaches a run.

use domain::command::{Advanced, Delivered};
use domain::{EventName, SignalId};
use engine::SignalRun;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::JsonSource;
use crate::random;
use crate::run_name::RunName;

const EXAMPLES: &str = "\
Examples:
  countersign run signal RUN change.approved
  countersign run signal RUN change.approved --payload '{\"by\": \"ada\"}' --id delivery-17
  countersign run signal RUN change.approved --payload @event.json

An event that comes before its step waits for it is kept. The same --id counts once.";

/// Deliver an event to a run that waits for it, or will
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
    /// The event
    event: EventName,
    /// What comes with it: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    payload: JsonSource,
    /// Names the delivery; the same id changes nothing the second time [default: a random one]
    #[arg(long, value_name = "ID")]
    id: Option<SignalId>,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let run = context.run(&args.run);
    let payload = args.payload.read("the event's payload")?;
    let id = args.id.map_or_else(random_id, Ok)?;
    let engine = context.existing_engine()?;
    let wish = SignalRun { id: id.clone(), event: args.event.clone(), payload };
    let delivered = engine.signal(&run, &context.by_user(), wish).await?;
    let (result, words) = match delivered {
        Delivered::Woke(Advanced::Over(status)) => ("delivered", format!("delivered; the run is {status}")),
        Delivered::Woke(Advanced::Paused) => ("delivered", "delivered; the run is paused".to_owned()),
        Delivered::Woke(Advanced::Ready) => ("delivered", "delivered; the run goes on".to_owned()),
        Delivered::Kept => ("kept", "no step waits for it yet; it is kept until one does".to_owned()),
        Delivered::Duplicate => ("duplicate", "delivered before; nothing changed".to_owned()),
    };
    context.answer(
        &format!("{}: {words}", args.event),
        &json!({ "run": run.run, "event": args.event, "id": id, "result": result }),
    )?;
    Ok(Ending::Done)
}

fn random_id() -> Result<SignalId, CliError> {
    Ok(SignalId::new(&format!("cli-{}", random::hex::<16>()?))?)
}
