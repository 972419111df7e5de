//! `countersign policy check|test|explain|apply|show`.

mod apply;
mod check;
mod explain;
mod files;
mod show;
mod test;

use api_types::PolicyOrigin;
use clap::Subcommand;
use domain::TenantId;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Check(check::Args),
    Test(test::Args),
    Explain(explain::Args),
    Apply(apply::Args),
    Show(show::Args),
}

pub(super) async fn run(verb: Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Check(args) => check::run(&args, context),
        Verb::Test(args) => test::run(&args, context),
        Verb::Explain(args) => explain::run(&args, context).await,
        Verb::Apply(args) => apply::run(&args, context).await,
        Verb::Show(args) => show::run(&args, context).await,
    }
}

/// The origin of the policy of `tenant`.
fn origin(from: &PolicyOrigin, tenant: &TenantId) -> String {
    match from {
        PolicyOrigin::Tenant(owner) => format!("applied by tenant {owner}"),
        PolicyOrigin::Default => format!("the default policy; tenant {tenant} has applied none"),
        PolicyOrigin::Request => "sent with the request".to_owned(),
    }
}
