//! `countersign run signal`.

use api_types::{SendSignal, SignalDelivery};
use domain::{EventName, RunStatus, SignalId};
use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::input::JsonSource;
use crate::process::ExitStatus;
use crate::random;
use crate::run_name::RunName;

const EXAMPLES: &str = "\
Examples:
  countersign run signal RUN change.approved
  countersign run signal RUN change.approved --payload '{\"by\": \"ada\"}' --id delivery-17
  countersign run signal RUN change.approved --payload @event.json

An event that arrives before a step waits for it is stored. Deliveries with the same --id count
once.";

/// Deliver an event to a run
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
    /// The name of the event
    event: EventName,
    /// The payload: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", default_value = "{}", allow_hyphen_values = true)]
    payload: JsonSource,
    /// The delivery id: a second delivery with the same id has no effect [default: random]
    #[arg(long, value_name = "ID")]
    id: Option<SignalId>,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    let payload = args.payload.read("the event's payload")?;
    let id = args.id.map_or_else(random_id, Ok)?;
    let (session, run) = context.connect_to_run(&args.run)?;
    let request = SendSignal { id: id.clone(), event: args.event.clone(), payload };
    let delivered = session.client.signal(&run.run, &request).await.map_err(ApiSession::run_error(&run))?;
    let (result, words) = match delivered.delivery {
        SignalDelivery::Delivered => {
            let status = session.client.run(&run.run).await?.status;
            ("delivered", format!("delivered; {}", run_state(status)))
        }
        SignalDelivery::Buffered => {
            ("buffered", "no step waits for it yet; it is stored until one does".to_owned())
        }
        SignalDelivery::Duplicate => ("duplicate", "already delivered; nothing changed".to_owned()),
    };
    context.print(
        &format!("{}: {words}", args.event),
        &json!({ "run": run.run, "event": args.event, "id": id, "result": result }),
    )?;
    Ok(ExitStatus::Success)
}

/// The state of a run after an event or a decision.
pub(crate) fn run_state(status: RunStatus) -> String {
    if status.is_terminal() || status == RunStatus::Paused {
        return format!("the run is {status}");
    }
    "the run continues".to_owned()
}

fn random_id() -> Result<SignalId, CliError> {
    Ok(SignalId::new(&format!("cli-{}", random::hex::<16>()?))?)
}
