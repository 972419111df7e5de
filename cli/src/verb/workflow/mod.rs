//! `countersign workflow …`.

pub(super) mod check;

use clap::Subcommand;

/// What can be done with workflow files.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Check(check::Args),
}
