//! `countersign whoami`: who asks, as the runtime knows them.

use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;

const EXAMPLES: &str = "\
Examples:
  countersign whoami --profile work
  countersign whoami --as ada";

/// Show who you are to the server or the store, and what you may do
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) async fn run(_: &Args, context: &Context) -> Result<Ending, CliError> {
    let me = context.link()?.client.me().await?;
    let roles = me.roles.iter().map(|role| role.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!(
        "{} of tenant {}\n  roles       {roles}\n  known by    {}\n",
        me.person, me.tenant, me.credential
    );
    context.answer(&text, &json!(me))?;
    Ok(Ending::Done)
}
