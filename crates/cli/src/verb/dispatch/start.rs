//! `countersign dispatch start`: what waits goes on.

use api_types::DispatchStarted;
use engine::{Engine, Reach};
use serde_json::json;
use store::Store;

use crate::context::Context;
#[cfg(feature = "aws")]
use crate::context::tools;
use crate::ending::Ending;
use crate::error::CliError;
use crate::so_far::SoFar;

use super::{reach, runs, whom};

/// Begin steps again, after a stop or a backout
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch start --all")]
pub(crate) struct Args {
    /// For all tenants; a tenant that was stopped on its own stays stopped
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let (reach, DispatchStarted { announced, all, .. }) = started(args, context).await?;
    let text = format!("steps are begun for {} again; {} can go on", whom(&reach), runs(announced));
    let note = all.as_ref().map(|stopped| {
        format!("\n  but dispatch is stopped for all tenants, by {}: {}", stopped.by, stopped.reason)
    });
    let json = json!({ "announced": announced, "all": all });
    context.answer(&(text + &note.unwrap_or_default()), &json)?;
    Ok(Ending::Done)
}

async fn started(args: &Args, context: &Context) -> Result<(Reach, DispatchStarted), CliError> {
    if args.all {
        let announced = of_all(context).await?;
        return Ok((Reach::All, DispatchStarted { announced, all: None, next: None }));
    }
    let link = context.link_or_new()?;
    let mut so_far = SoFar::new(context);
    let mut next = None;
    loop {
        let told = link.client.start_dispatch(next).await?;
        if told.next.is_none() {
            return Ok((reach(&link), told));
        }
        so_far.say(&format!("{} can go on", runs(told.announced)));
        next = told.next;
    }
}

async fn of_all(context: &Context) -> Result<u64, CliError> {
    #[cfg(feature = "aws")]
    if let Some(engine) = context.engine_on_aws(tools())? {
        return of_all_on(&engine, context).await;
    }
    of_all_on(&context.engine()?, context).await
}

async fn of_all_on<S: Store>(engine: &Engine<S>, context: &Context) -> Result<u64, CliError> {
    let by = context.by_user();
    let mut so_far = SoFar::new(context);
    let mut done = None;
    loop {
        let (announced, rest) = engine.start_some(&Reach::All, &by, done).await?;
        if rest.is_none() {
            return Ok(announced);
        }
        so_far.say(&format!("{} can go on", runs(announced)));
        done = rest;
    }
}
