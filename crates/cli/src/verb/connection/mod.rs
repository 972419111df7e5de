//! `countersign connection list|show|set|test|remove`.

mod list;
mod remove;
mod set;
mod show;
mod test;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(list::Args),
    Show(show::Args),
    Set(Box<set::Args>),
    Test(test::Args),
    Remove(remove::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::List(args) => list::run(args, context).await,
        Verb::Show(args) => show::run(args, context).await,
        Verb::Set(args) => set::run(args, context).await,
        Verb::Test(args) => test::run(args, context).await,
        Verb::Remove(args) => remove::run(args, context).await,
    }
}
