//! `countersign store …`.

mod backup;
mod restore;

use std::path::Path;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::new_file::copy_new;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Backup(backup::Args),
    Restore(restore::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Backup(args) => backup::run(args, context).await,
        Verb::Restore(args) => restore::run(args, context).await,
    }
}

/// Copies a key file, unless the copy exists or there is nothing to copy.
fn copy_key(from: &Path, to: &Path) -> Result<(), CliError> {
    if to.exists() || !from.exists() { Ok(()) } else { copy_new(from, to) }
}
