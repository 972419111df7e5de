//! `countersign dispatch …`: whether anything is begun at all.

mod start;
mod status;
mod stop;

use clap::Subcommand;
use engine::Reach;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use views::counted;

/// What can be done with the switch.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Stop(stop::Args),
    Start(start::Args),
    Status(status::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<Ending, CliError> {
    match verb {
        Verb::Stop(args) => stop::run(args, context).await,
        Verb::Start(args) => start::run(args, context).await,
        Verb::Status(args) => status::run(args, context).await,
    }
}

/// Whom a switch is about that is turned through the API. That of all tenants is turned on the store alone.
pub(super) fn reach(link: &Link) -> Reach {
    Reach::Tenant(link.tenant.clone())
}

/// The same, in words.
pub(super) fn whom(reach: &Reach) -> String {
    match reach {
        Reach::Tenant(tenant) => format!("tenant {tenant}"),
        Reach::All => "all tenants".to_owned(),
    }
}

/// So many runs, in words.
pub(super) fn runs(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "run")
}

/// How the same verb is typed again.
pub(super) fn again(verb: &str, reach: &Reach) -> String {
    match reach {
        Reach::Tenant(_) => verb.to_owned(),
        Reach::All => format!("{verb} --all"),
    }
}
