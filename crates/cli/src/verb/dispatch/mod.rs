//! `countersign dispatch …`: the dispatch switch.

mod start;
mod status;
mod stop;

use clap::Subcommand;
use engine::DispatchScope;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::counted;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Stop(stop::Args),
    Start(start::Args),
    Status(status::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Stop(args) => stop::run(args, context).await,
        Verb::Start(args) => start::run(args, context).await,
        Verb::Status(args) => status::run(args, context).await,
    }
}

/// The scope of a request through the API. The switch for all tenants is set on the store only.
pub(super) fn session_scope(session: &ApiSession) -> DispatchScope {
    DispatchScope::Tenant(session.tenant.clone())
}

pub(super) fn scope_text(scope: &DispatchScope) -> String {
    match scope {
        DispatchScope::Tenant(tenant) => format!("tenant {tenant}"),
        DispatchScope::All => "all tenants".to_owned(),
    }
}

pub(super) fn runs_text(count: u64) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), "run")
}

/// The command line of `verb` for `scope`.
pub(super) fn command_for(verb: &str, scope: &DispatchScope) -> String {
    match scope {
        DispatchScope::Tenant(_) => verb.to_owned(),
        DispatchScope::All => format!("{verb} --all"),
    }
}
