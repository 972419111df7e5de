//! `countersign worker drain`: a worker finishes what it has in hand, and goes.

use std::time::Duration;

use api_types::Worker;
use domain::worker_registry::{HEARTBEAT_EVERY, OFFLINE_AFTER};
use domain::{WorkerId, WorkerRecord, WorkerReport};
use engine::Engine;
use serde_json::json;
use store::Store;
use tokio::time::{Instant, sleep};
use views::counted;

use crate::context::Context;
#[cfg(feature = "aws")]
use crate::context::tools;
use crate::ending::Ending;
use crate::error::CliError;
use crate::so_far::SoFar;

/// Often enough for somebody who waits, seldom enough for the store.
const LOOK_EVERY: Duration = Duration::from_millis(500);

const EXAMPLES: &str = "\
Examples:
  countersign worker drain worker-1f3a --reason 'new release'
  countersign worker drain worker-1f3a --reason 'new release' --no-wait
  countersign worker drain worker-9c0e --reason 'new release' --aws

A worker serves every tenant, so this is done on the store, and not through a server. What keeps
workers running, such as a service of ECS, starts another one in its place.

Exit codes: 0 if it has left and finished all it had in hand, or was asked with --no-wait; 1 if it
left steps to other workers or vanished.";

/// Ask a worker to leave: it begins nothing any more, finishes the steps under way, and goes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The worker's name, as `worker list` shows it
    worker: WorkerId,
    /// Why, in your words; operators of every tenant see it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Do not wait until it is gone
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    #[cfg(feature = "aws")]
    if let Some(engine) = context.engine_on_aws(tools())? {
        return run_on(&engine, args, context).await;
    }
    run_on(&context.existing_engine()?, args, context).await
}

async fn run_on<S: Store>(engine: &Engine<S>, args: &Args, context: &Context) -> Result<Ending, CliError> {
    let asked = engine.request_drain(&args.worker, &context.by_user(), &args.reason).await?;
    let (stands, end) = if args.no_wait {
        (asked, End::NotWaitedFor)
    } else {
        gone(engine, asked, SoFar::new(context)).await?
    };
    let (text, ending) = words(&stands, end);
    context.answer(&text, &json!(Worker::seen_at(stands, engine.now())))?;
    Ok(ending)
}

/// How the waiting ended.
enum End {
    /// The worker has left, as it said itself.
    Left,
    /// It has signed no more.
    Vanished,
    /// Nobody waited.
    NotWaitedFor,
}

/// Waits until the worker is gone, in good order or not. Clocks differ between machines, so that one which vanishes is
/// known by how long its place stays as it is.
async fn gone<S: Store>(
    engine: &Engine<S>,
    mut stands: WorkerRecord,
    mut so_far: SoFar,
) -> Result<(WorkerRecord, End), CliError> {
    let mut heard = Instant::now();
    loop {
        let so = match &stands.says {
            WorkerReport::Left { .. } => return Ok((stands, End::Left)),
            _ if heard.elapsed() > OFFLINE_AFTER.std() => return Ok((stands, End::Vanished)),
            WorkerReport::Leaving { in_hand } => {
                format!("{} has {} in hand", stands.worker, messages(*in_hand))
            }
            WorkerReport::Working { .. } | WorkerReport::Unwell { .. } => {
                format!("{} hears of it within {HEARTBEAT_EVERY}", stands.worker)
            }
        };
        so_far.say(&so);
        sleep(LOOK_EVERY).await;
        let now = engine.worker(&stands.worker).await?;
        if now.revision != stands.revision {
            heard = Instant::now();
        }
        stands = now;
    }
}

fn words(stands: &WorkerRecord, end: End) -> (String, Ending) {
    let worker = &stands.worker;
    match (&stands.says, end) {
        (WorkerReport::Left { finished: true }, _) => {
            (format!("{worker} has left; it finished all it had in hand"), Ending::Done)
        }
        (WorkerReport::Left { finished: false }, _) => {
            let rest = "steps that it did not finish are taken over when their leases run out";
            (format!("{worker} has left; {rest}"), Ending::NotDone)
        }
        (_, End::Vanished | End::Left) => {
            let rest = "what it had in hand is taken over, and it leaves if it comes back";
            (format!("{worker} is not heard of any more; {rest}"), Ending::NotDone)
        }
        (says, End::NotWaitedFor) => {
            let rest = match says.in_hand() {
                0 => String::new(),
                some => format!(", and finishes {} before it goes", messages(some)),
            };
            (
                format!("{worker} is asked to leave; it hears of it within {HEARTBEAT_EVERY}{rest}"),
                Ending::Done,
            )
        }
    }
}

fn messages(count: u32) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "message")
}
