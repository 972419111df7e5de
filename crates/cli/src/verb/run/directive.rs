//! What every directive of an operator says: which run, and why.

use crate::run_name::RunName;

/// Which run, and why.
#[derive(Debug, clap::Args)]
pub(super) struct Directive {
    /// The run
    pub(super) run: RunName,
    /// Why, in your words; kept with the run for ever
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) reason: String,
}
