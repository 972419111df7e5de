//! `countersign worker`: works on runs, and looks after those who do.

mod crash;
mod drain;
mod idle;
mod list;
mod stop;
mod work;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

const EXAMPLES: &str = "\
Examples:
  countersign worker
  countersign worker --concurrency 64 --log-json
  countersign worker --allow-host inventory.internal --allow-host 10.0.0.5:8080
  countersign worker --config countersign.yaml    with ServiceNow, Slack, GitHub and models
  countersign worker --until-idle        for scripts: leave when nothing is left to do
  countersign worker list                which workers are there?
  countersign worker drain worker-1f3a --reason 'new release'

Any number of workers may share a store; each works on the runs of every tenant. SIGTERM, Ctrl-C or
`worker drain` lets the steps under way finish (see --drain). A second signal ends the process at
once; what it was doing is taken over by another worker when its lease runs out.

Exit codes: 0 if every step under way was finished, 1 if some were left to other workers.";

/// Work on runs until SIGTERM or Ctrl-C; list the workers there are, ask one to leave
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    work: work::Work,
}

/// What can be done with workers that are there.
#[derive(Debug, Subcommand)]
enum Verb {
    List(list::Args),
    Drain(drain::Args),
}

pub(super) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    match args.verb {
        None => Box::pin(work::run(args.work, context)).await,
        Some(Verb::List(args)) => list::run(&args, context).await,
        Some(Verb::Drain(args)) => drain::run(&args, context).await,
    }
}
