//! `countersign tenant show|set`: what a tenant has settled for all its runs.

mod changes;
mod set;
mod show;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// What can be done about what a tenant has settled.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Show(show::Args),
    Set(set::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<Ending, CliError> {
    match verb {
        Verb::Show(args) => show::run(args, context).await,
        Verb::Set(args) => set::run(args, context).await,
    }
}
