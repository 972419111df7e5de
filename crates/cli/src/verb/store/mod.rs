//! `countersign store …`.

mod backup;
mod restore;

use std::path::Path;

use clap::Subcommand;

use crate::context::Context;
use crate::error::CliError;
use crate::new_file::{copy_new, require_new, with_ending};
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

/// Refuses a path with a database, or with the side files of one that was moved away: SQLite would apply the commits in
/// such a write-ahead log to any database that gets the name.
fn require_no_database(path: &Path) -> Result<(), CliError> {
    ["", "-wal", "-shm", "-journal"].iter().try_for_each(|ending| require_new(&with_ending(path, ending)))
}

/// Copies a key file, unless the copy exists or there is nothing to copy.
fn copy_key(from: &Path, to: &Path) -> Result<(), CliError> {
    if to.exists() || !from.exists() { Ok(()) } else { copy_new(from, to) }
}
