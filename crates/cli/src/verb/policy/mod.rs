//! `countersign policy check|test|explain|apply|show`: what runs may do, and why.

mod apply;
mod check;
mod explain;
mod files;
mod origin;
mod show;
mod test;

use clap::Subcommand;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

/// What can be done with policies.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Check(check::Args),
    Test(test::Args),
    Explain(explain::Args),
    Apply(apply::Args),
    Show(show::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<Ending, CliError> {
    match verb {
        Verb::Check(args) => check::run(&args, context),
        Verb::Test(args) => test::run(&args, context),
        Verb::Explain(args) => explain::run(&args, context).await,
        Verb::Apply(args) => apply::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
    }
}
