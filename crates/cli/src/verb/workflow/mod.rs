//! `countersign workflow …`.

pub(super) mod apply;
pub(super) mod check;
pub(super) mod list;
pub(super) mod reference;
pub(super) mod show;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Check(check::Args),
    Apply(apply::Args),
    List(list::Args),
    Reference(reference::Args),
    Show(show::Args),
}
