//! `countersign key create|list|revoke`.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::exit_status::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Create(create::Args),
    List(list::Args),
    Revoke(revoke::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Create(args) => create::run(args, context).await,
        Verb::List(args) => list::run(args, context).await,
        Verb::Revoke(args) => revoke::run(args, context).await,
    }
}
