//! `countersign tenant show|set`.

mod changes;
mod set;
mod show;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Show(show::Args),
    Set(set::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Show(args) => show::run(args, context).await,
        Verb::Set(args) => set::run(args, context).await,
    }
}
