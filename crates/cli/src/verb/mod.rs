//! The commands, one file each: the arguments first, then the implementation.

mod approval;
mod audit;
mod backout;
mod bundle;
mod completions;
mod connection;
mod cost;
mod dispatch;
mod key;
mod man;
mod policy;
mod profile;
mod queue;
mod run;
mod serve;
mod store;
mod tenant;
mod worker;
mod workflow;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::{demo, dev};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Worker(worker::Args),
    Serve(serve::Args),
    /// Check and apply workflows
    #[command(subcommand)]
    Workflow(workflow::Verb),
    /// Start, inspect and control runs
    #[command(subcommand)]
    Run(run::Verb),
    /// List and decide approvals
    #[command(subcommand)]
    Approval(approval::Verb),
    /// Check, test, explain and apply policies
    #[command(subcommand)]
    Policy(policy::Verb),
    /// Manage users, approver groups and limits
    #[command(subcommand)]
    Tenant(tenant::Verb),
    /// Manage connections to external systems
    #[command(subcommand)]
    Connection(connection::Verb),
    /// Download and verify evidence bundles
    #[command(subcommand)]
    Bundle(bundle::Verb),
    /// Stop and start the dispatch of steps
    #[command(subcommand)]
    Dispatch(dispatch::Verb),
    Backout(backout::Args),
    Cost(cost::Args),
    /// Create and revoke API keys
    #[command(subcommand)]
    Key(key::Verb),
    Whoami(key::WhoamiArgs),
    /// List, verify and export administrative changes
    #[command(subcommand)]
    Audit(audit::Verb),
    /// Manage server profiles
    #[command(subcommand)]
    Profile(profile::Verb),
    /// Inspect and redrive dead-letter messages
    #[command(subcommand)]
    Queue(queue::Verb),
    /// Back up and restore the embedded store
    #[command(subcommand)]
    Store(store::Verb),
    Demo(demo::Args),
    Dev(dev::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// Runs `command`; `cli` describes the whole command line, for completions and the manual.
pub(crate) async fn run(
    command: Command,
    cli: clap::Command,
    context: &Context,
) -> Result<ExitStatus, CliError> {
    match command {
        Command::Worker(args) => Box::pin(worker::run(args, context)).await,
        Command::Serve(args) => Box::pin(serve::run(args, context)).await,
        Command::Workflow(workflow::Verb::Check(args)) => workflow::check::run(&args, context).await,
        Command::Workflow(workflow::Verb::Apply(args)) => workflow::apply::run(args, context).await,
        Command::Workflow(workflow::Verb::List(args)) => workflow::list::run(&args, context).await,
        Command::Workflow(workflow::Verb::Reference(args)) => workflow::reference::run(&args, context),
        Command::Workflow(workflow::Verb::Show(args)) => workflow::show::run(&args, context).await,
        Command::Run(verb) => run::run(verb, context).await,
        Command::Approval(verb) => approval::run(verb, context).await,
        Command::Policy(verb) => policy::run(verb, context).await,
        Command::Tenant(verb) => tenant::run(&verb, context).await,
        Command::Connection(verb) => connection::run(&verb, context).await,
        Command::Bundle(verb) => bundle::run(&verb, context).await,
        Command::Dispatch(verb) => dispatch::run(&verb, context).await,
        Command::Cost(args) => cost::run(&args, context).await,
        Command::Backout(args) => Box::pin(backout::run(&args, context)).await,
        Command::Key(verb) => key::run(&verb, context).await,
        Command::Audit(verb) => audit::run(&verb, context).await,
        Command::Whoami(args) => key::whoami(&args, context).await,
        Command::Profile(verb) => profile::run(verb, context),
        Command::Queue(verb) => queue::run(&verb, context).await,
        Command::Store(verb) => store::run(&verb, context).await,
        Command::Demo(args) => demo::run(args, context).await,
        Command::Dev(args) => dev::run(args, context).await,
        Command::Completions(args) => completions::run(&args, cli, context),
        Command::Man(args) => man::run(&args, cli, context),
    }
}
