//! `countersign key create|list|revoke`: what programs and people prove themselves with.

mod create;
mod list;
mod revoke;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// What can be done about keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Create(create::Args),
    List(list::Args),
    Revoke(revoke::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<Ending, CliError> {
    match verb {
        Verb::Create(args) => create::run(args, context).await,
        Verb::List(args) => list::run(args, context).await,
        Verb::Revoke(args) => revoke::run(args, context).await,
    }
}
