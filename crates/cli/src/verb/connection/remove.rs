//! `countersign connection remove`.

use domain::ConnectionName;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::show::not_found;

/// Remove a connection that an admin has set
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  countersign connection remove old-instance\n\nSteps that name it fail from then on."
)]
pub(crate) struct Args {
    /// The name of the connection
    name: ConnectionName,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let removed = context.connect()?.client.remove_connection(&args.name).await;
    let removed = removed.map_err(|error| not_found(error, &args.name))?;
    context.print(&format!("connection {} is removed\n", removed.name), &json!({ "connection": removed }))?;
    Ok(ExitStatus::Success)
}
