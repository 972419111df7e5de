//! `countersign audit list|show|verify|export`.

mod export;
mod list;
mod log;
mod show;
mod verify;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(list::Args),
    Show(show::Args),
    Verify(verify::Args),
    Export(export::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::List(args) => list::run(args, context).await,
        Verb::Show(args) => show::run(args, context).await,
        Verb::Verify(args) => verify::run(args, context).await,
        Verb::Export(args) => export::run(args, context).await,
    }
}
