//! `countersign worker drain`: a worker finishes what it has in hand, and goes.

use std::time::Duration;

use api::wire::Worker;
use domain::roll::SIGNS_EVERY;
use domain::{Enrolled, Says, Standing, WorkerId};
use engine::Engine;
use serde_json::json;
use store::Store;
use telling::counted;
use tokio::time::sleep;

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

Exit codes: 0 if it has left and finished all it had in hand, or was asked to with --no-wait; 1 if it
left steps to other workers, vanished, or had left before.";

/// Ask a worker to leave: it begins nothing any more, finishes the steps under way, and goes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The worker's name, as `worker list` shows it
    worker: WorkerId,
    /// Why, in your words
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
    let asked = engine.ask_to_leave(&args.worker, &context.by_user(), &args.reason).await?;
    let stands = if args.no_wait { asked } else { gone(engine, asked, SoFar::new(context)).await? };
    let standing = stands.standing(engine.now());
    let (text, ending) = words(&stands, standing, args.no_wait);
    context.answer(&text, &json!(Worker::seen_at(stands, engine.now())))?;
    Ok(ending)
}

/// Waits until the worker is gone, in good order or not.
async fn gone<S: Store>(
    engine: &Engine<S>,
    mut stands: Enrolled,
    mut so_far: SoFar,
) -> Result<Enrolled, CliError> {
    while !matches!(stands.standing(engine.now()), Standing::Left | Standing::Offline) {
        so_far.say(&match &stands.says {
            Says::Leaving { in_hand } => format!("{} has {} in hand", stands.worker, messages(*in_hand)),
            _ => format!("{} hears of it within {SIGNS_EVERY}", stands.worker),
        });
        sleep(LOOK_EVERY).await;
        stands = engine.worker(&stands.worker).await?;
    }
    Ok(stands)
}

fn words(stands: &Enrolled, standing: Standing, no_wait: bool) -> (String, Ending) {
    let worker = &stands.worker;
    match (&stands.says, standing) {
        (Says::Left { finished: true }, _) => {
            (format!("{worker} has left; it finished all it had in hand"), Ending::Done)
        }
        (Says::Left { finished: false }, _) => {
            let text = "steps that it did not finish are taken over when their leases run out";
            (format!("{worker} has left; {text}"), Ending::NotDone)
        }
        (_, Standing::Offline) => {
            let text = "it is not heard of any more; what it had in hand is taken over, and it leaves if it comes back";
            (format!("{worker} is asked to leave, but {text}"), Ending::done_if(no_wait))
        }
        (says, _) => {
            let hand = messages(says.in_hand());
            let text = format!("{worker} leaves within {SIGNS_EVERY} and what it takes to finish {hand}");
            (text, Ending::Done)
        }
    }
}

fn messages(count: u32) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "message")
}
