//! `countersign run signal`: an event from outside reaches a run.

use api_types::{Delivery, SendSignal};
use domain::{EventName, RunStatus, SignalId};
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::input::JsonSource;
use crate::link::Link;
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
    let payload = args.payload.read("the event's payload")?;
    let id = args.id.map_or_else(random_id, Ok)?;
    let (link, run) = context.link_to(&args.run)?;
    let wish = SendSignal { id: id.clone(), event: args.event.clone(), payload };
    let delivered = link.client.signal(&run.run, &wish).await.map_err(Link::about(&run))?;
    let (result, words) = match delivered.delivery {
        Delivery::Woke => {
            let status = link.client.run(&run.run).await?.status;
            ("delivered", format!("delivered; {}", follows(status)))
        }
        Delivery::Kept => ("kept", "no step waits for it yet; it is kept until one does".to_owned()),
        Delivery::Duplicate => ("duplicate", "delivered before; nothing changed".to_owned()),
    };
    context.answer(
        &format!("{}: {words}", args.event),
        &json!({ "run": run.run, "event": args.event, "id": id, "result": result }),
    )?;
    Ok(Ending::Done)
}

/// What became of a run that was moved along.
pub(crate) fn follows(status: RunStatus) -> String {
    if status.is_terminal() || status == RunStatus::Paused {
        return format!("the run is {status}");
    }
    "the run goes on".to_owned()
}

fn random_id() -> Result<SignalId, CliError> {
    Ok(SignalId::new(&format!("cli-{}", random::hex::<16>()?))?)
}
