//! `countersign profile list|add|use|remove`.

mod add;
mod list;
mod remove;
mod use_one;

use std::path::Path;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(list::Args),
    Add(add::Args),
    Use(use_one::Args),
    Remove(remove::Args),
}

pub(super) fn run(verb: Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::List(args) => list::run(&args, context),
        Verb::Add(args) => add::run(args, context),
        Verb::Use(args) => use_one::run(args, context),
        Verb::Remove(args) => remove::run(&args, context),
    }
}

/// The file of profiles.
fn file(context: &Context) -> Result<&Path, CliError> {
    let none = || CliError::Usage("no directory for profiles; set HOME or XDG_CONFIG_HOME".to_owned());
    context.env.config.as_deref().ok_or_else(none)
}
