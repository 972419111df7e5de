//! `countersign approval list|show|approve|reject`: what people are asked, and what they answer.

mod answer;
mod find;
mod list;
mod show;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// What can be done about requests for approval.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List what people can still answer, oldest first
    List(list::Args),
    /// Show what exactly is asked, of whom, and why
    Show(show::Args),
    /// Say yes
    Approve(answer::Args),
    /// Say no
    Reject(answer::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<Ending, CliError> {
    match verb {
        Verb::List(args) => list::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
        Verb::Approve(args) => answer::run(args, true, context).await,
        Verb::Reject(args) => answer::run(args, false, context).await,
    }
}
