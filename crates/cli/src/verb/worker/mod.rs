//! `countersign worker`, `worker list` and `worker drain`.

mod crash;
mod drain;
mod idle;
mod list;
mod work;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  countersign worker
  countersign worker --concurrency 64 --log-json
  countersign worker --allow-host inventory.internal --allow-host 10.0.0.5:8080
  countersign worker --config countersign.yaml    with ServiceNow, Slack, GitHub and models
  countersign worker --until-idle        for scripts: exit when no work is left
  countersign worker list                list workers
  countersign worker drain worker-1f3a --reason 'new release'

Any number of workers may share a store; each serves every tenant. On SIGTERM, Ctrl-C or `worker
drain` the running steps finish (see --drain). A second signal ends the process at once; another
worker takes over its steps when their leases expire.

Exit codes: 0 if every running step finished, 1 if some were left to other workers.";

/// Execute runs until SIGTERM or Ctrl-C; list and drain workers
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    work: work::Work,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(list::Args),
    Drain(drain::Args),
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    match args.verb {
        None => Box::pin(work::run(args.work, context)).await,
        Some(Verb::List(args)) => list::run(&args, context).await,
        Some(Verb::Drain(args)) => drain::run(&args, context).await,
    }
}
