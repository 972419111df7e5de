//! `countersign bundle get|verify|show|replace-key`.

mod download;
mod get;
pub(super) mod read;
mod replace_key;
mod show;
mod text;
mod verify;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Get(get::Args),
    Verify(verify::Args),
    Show(show::Args),
    ReplaceKey(replace_key::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Get(args) => get::run(args, context).await,
        Verb::Verify(args) => verify::run(args, context),
        Verb::Show(args) => show::run(args, context),
        Verb::ReplaceKey(args) => replace_key::run(args, context),
    }
}
