//! `countersign whoami`.

use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::exit_status::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  countersign whoami --profile work
  countersign whoami --as ada";

/// Show your user, tenant and roles
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) async fn run(_: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let me = context.connect()?.client.me().await?;
    let roles = me.roles.iter().map(|role| role.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!(
        "{} of tenant {}\n  roles       {roles}\n  credential  {}\n",
        me.person, me.tenant, me.credential
    );
    context.print(&text, &json!(me))?;
    Ok(ExitStatus::Success)
}
