//! One file per verb: its arguments on top, what it does below.

mod approval;
mod queue;
mod run;
mod worker;
mod workflow;

use clap::Subcommand;

use crate::context::Context;
use crate::demo;
use crate::ending::Ending;
use crate::error::CliError;

pub(crate) use run::start::{Wish, start};

/// Everything the program can be told to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Worker(worker::Args),
    /// Check workflow files
    #[command(subcommand)]
    Workflow(workflow::Verb),
    /// Start runs, look at them, decide about them
    #[command(subcommand)]
    Run(run::Verb),
    /// Answer the questions that runs ask
    #[command(subcommand)]
    Approval(approval::Verb),
    /// Look after messages that were given up
    #[command(subcommand)]
    Queue(queue::Verb),
    Demo(demo::Args),
}

/// Does what was asked for.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Ending, CliError> {
    match command {
        Command::Worker(args) => worker::run(args, context).await,
        Command::Workflow(workflow::Verb::Check(args)) => workflow::check::run(&args, context),
        Command::Run(verb) => run::run(verb, context).await,
        Command::Approval(verb) => approval::run(verb, context).await,
        Command::Queue(verb) => queue::run(&verb, context).await,
        Command::Demo(args) => demo::run(args, context).await,
    }
}
