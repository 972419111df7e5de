//! `countersign workflow …`.

pub(super) mod apply;
pub(super) mod check;
pub(super) mod list;
pub(super) mod reference;

use clap::Subcommand;

/// What can be done with workflow files.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Check(check::Args),
    Apply(apply::Args),
    List(list::Args),
    Reference(reference::Args),
}
