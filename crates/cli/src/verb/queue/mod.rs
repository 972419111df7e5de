//! `countersign queue …`.
//!
//! Queues are shared by all tenants, so these commands work on a store file or on AWS, not through a server.

mod dead_letters;
mod redrive;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    DeadLetters(dead_letters::Args),
    Redrive(redrive::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    context.require_store()?;
    match verb {
        Verb::DeadLetters(args) => dead_letters::run(args, context).await,
        Verb::Redrive(args) => redrive::run(args, context).await,
    }
}
