//! `countersign queue …`.

mod dead_letters;
mod redrive;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// What can be done with messages that were given up.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    DeadLetters(dead_letters::Args),
    Redrive(redrive::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<Ending, CliError> {
    match verb {
        Verb::DeadLetters(args) => dead_letters::run(args, context).await,
        Verb::Redrive(args) => redrive::run(args, context).await,
    }
}
