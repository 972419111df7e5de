//! `countersign bundle get|verify|show`: the evidence of a finished run.

mod download;
mod get;
mod read;
mod show;
mod text;
mod verify;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// What can be done with evidence.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Get(get::Args),
    Verify(verify::Args),
    Show(show::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<Ending, CliError> {
    match verb {
        Verb::Get(args) => get::run(args, context).await,
        Verb::Verify(args) => verify::run(args, context),
        Verb::Show(args) => show::run(args, context),
    }
}
