//! `countersign key create|list|revoke`, and `countersign whoami`, which shows the identity that a key gives.

mod create;
mod list;
mod revoke;

use clap::Subcommand;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Create(create::Args),
    List(list::Args),
    Revoke(revoke::Args),
}

pub(super) async fn run(verb: &Verb, context: &Context) -> Result<ExitStatus, CliError> {
    match verb {
        Verb::Create(args) => create::run(args, context).await,
        Verb::List(args) => list::run(args, context).await,
        Verb::Revoke(args) => revoke::run(args, context).await,
    }
}

const WHOAMI_EXAMPLES: &str = "\
Examples:
  countersign whoami --profile work
  countersign whoami --as ada";

/// Show your user, tenant and roles
#[derive(Debug, clap::Args)]
#[command(after_help = WHOAMI_EXAMPLES)]
pub(crate) struct WhoamiArgs {}

pub(super) async fn whoami(_: &WhoamiArgs, context: &Context) -> Result<ExitStatus, CliError> {
    let me = context.connect()?.client.me().await?;
    let roles = me.roles.iter().map(|role| role.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!(
        "{} of tenant {}\n  roles       {roles}\n  credential  {}\n",
        me.person, me.tenant, me.credential
    );
    context.print(&text, &json!(me))?;
    Ok(ExitStatus::Success)
}
