//! One file per verb: its arguments on top, what it does below.

mod approval;
mod backout;
mod bundle;
mod completions;
mod cost;
mod dispatch;
mod key;
mod man;
mod policy;
mod profile;
mod queue;
mod run;
mod serve;
mod tenant;
mod whoami;
mod worker;
mod workflow;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::{demo, dev};

pub(crate) use run::start::{Wish, start};

/// Everything the program can be told to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Worker(worker::Args),
    Serve(serve::Args),
    /// Check workflow files, and put them to use
    #[command(subcommand)]
    Workflow(workflow::Verb),
    /// Start runs, look at them, decide about them
    #[command(subcommand)]
    Run(run::Verb),
    /// Answer the questions that runs ask
    #[command(subcommand)]
    Approval(approval::Verb),
    /// Check, test, explain and settle what runs may do
    #[command(subcommand)]
    Policy(policy::Verb),
    /// Settle who the people are, who may approve, how much a run may change
    #[command(subcommand)]
    Tenant(tenant::Verb),
    /// Hand out the evidence of a run, and verify it
    #[command(subcommand)]
    Bundle(bundle::Verb),
    /// Stop beginning steps, and start again
    #[command(subcommand)]
    Dispatch(dispatch::Verb),
    Backout(backout::Args),
    Cost(cost::Args),
    /// Make and take back the keys that programs and people prove themselves with
    #[command(subcommand)]
    Key(key::Verb),
    Whoami(whoami::Args),
    /// Name servers, and say which one is meant
    #[command(subcommand)]
    Profile(profile::Verb),
    /// Look after messages that were given up
    #[command(subcommand)]
    Queue(queue::Verb),
    Demo(demo::Args),
    Dev(dev::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Does what was asked for.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Ending, CliError> {
    match command {
        Command::Worker(args) => Box::pin(worker::run(args, context)).await,
        Command::Serve(args) => Box::pin(serve::run(args, context)).await,
        Command::Workflow(workflow::Verb::Check(args)) => workflow::check::run(&args, context),
        Command::Workflow(workflow::Verb::Apply(args)) => workflow::apply::run(args, context).await,
        Command::Workflow(workflow::Verb::List(args)) => workflow::list::run(&args, context).await,
        Command::Workflow(workflow::Verb::Reference(args)) => workflow::reference::run(&args, context),
        Command::Workflow(workflow::Verb::Show(args)) => workflow::show::run(&args, context).await,
        Command::Run(verb) => run::run(verb, context).await,
        Command::Approval(verb) => approval::run(verb, context).await,
        Command::Policy(verb) => policy::run(verb, context).await,
        Command::Tenant(verb) => tenant::run(&verb, context).await,
        Command::Bundle(verb) => bundle::run(&verb, context).await,
        Command::Dispatch(verb) => dispatch::run(&verb, context).await,
        Command::Cost(args) => cost::run(&args, context).await,
        Command::Backout(args) => Box::pin(backout::run(&args, context)).await,
        Command::Key(verb) => key::run(&verb, context).await,
        Command::Whoami(args) => whoami::run(&args, context).await,
        Command::Profile(verb) => profile::run(verb, context),
        Command::Queue(verb) => queue::run(&verb, context).await,
        Command::Demo(args) => demo::run(args, context).await,
        Command::Dev(args) => dev::run(args, context).await,
        Command::Completions(args) => completions::run(&args, context),
        Command::Man(args) => man::run(&args, context),
    }
}
