//! `countersign run …`.

mod cancel;
mod follower;
mod list;
mod pause;
mod retry;
mod rollback;
mod show;
pub(super) mod signal;
mod start;
mod timeline;
mod undo;
mod watch;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::run_name::RunName;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Start(start::Args),
    List(list::Args),
    Show(show::Args),
    Watch(watch::Args),
    Timeline(timeline::Args),
    Cancel(cancel::Args),
    #[command(visible_alias = "resume")]
    Retry(retry::Args),
    Rollback(rollback::Args),
    Undo(undo::Args),
    Pause(pause::Args),
    Signal(signal::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Start(args) => start::run(args, context).await,
        Verb::List(args) => list::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
        Verb::Watch(args) => watch::run(&args, context).await,
        Verb::Timeline(args) => timeline::run(&args, context).await,
        Verb::Cancel(args) => cancel::run(&args, context).await,
        Verb::Retry(args) => retry::run(&args, context).await,
        Verb::Rollback(args) => rollback::run(&args, context).await,
        Verb::Undo(args) => undo::run(&args, context).await,
        Verb::Pause(args) => pause::run(&args, context).await,
        Verb::Signal(args) => signal::run(args, context).await,
    }
}

/// The arguments of every operator action on a run.
#[derive(Debug, clap::Args)]
struct RunAction {
    /// The run
    run: RunName,
    /// The reason, which is stored with the run permanently
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}
