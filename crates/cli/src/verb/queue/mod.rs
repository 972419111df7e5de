//! `countersign queue …`.
//!
//! Queues are the fleet's, not a tenant's: whoever looks after them has the store, in a file or on AWS.

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
    context.must_not_be_for_a_server()?;
    match verb {
        Verb::DeadLetters(args) => dead_letters::run(args, context).await,
        Verb::Redrive(args) => redrive::run(args, context).await,
    }
}
