//! `countersign connection show`, and the text about one connection.

use std::fmt::Write as _;

use api_types::Connection;
use domain::ConnectionName;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

/// Show a connection, without its secret
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign connection show servicenow-prod")]
pub(crate) struct Args {
    /// The name of the connection
    name: ConnectionName,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let connection = context.connect()?.client.connection(&args.name).await;
    let connection = connection.map_err(|error| not_found(error, &args.name))?;
    context.print(&text(&connection), &json!({ "connection": connection }))?;
    Ok(ExitStatus::Success)
}

/// The error of a request about a connection that does not exist.
pub(super) fn not_found(error: client::ClientError, name: &ConnectionName) -> CliError {
    if error.is("NOT_FOUND") {
        let text = format!("connection {name} does not exist; list connections with `connection list`");
        return CliError::Usage(text);
    }
    error.into()
}

/// One line for each property.
pub(super) fn text(connection: &Connection) -> String {
    let Connection { name, kind, base_url, environment, workspace, authentication, credential, .. } =
        connection;
    let authentication = credential.as_ref().map_or_else(|| authentication.clone(), ToString::to_string);
    let mut text = format!(
        "connection {name}\n  kind            {kind}\n  address         {base_url}\n  environment     {environment}\n  \
         authentication  {authentication}\n"
    );
    if let Some(workspace) = workspace {
        let _ = writeln!(text, "  workspace       {workspace}");
    }
    if let Some(api) = &connection.options.model_api {
        let _ = writeln!(text, "  model API       {api}");
    }
    if let Some(channel) = &connection.options.channel {
        let _ = writeln!(text, "  channel         {channel}");
    }
    for route in &connection.options.routes {
        let _ = writeln!(text, "  route           {route}");
    }
    if let Some(team) = &connection.options.team {
        let _ = writeln!(text, "  team            {team}");
    }
    for secret in connection.options.signing_secrets() {
        let _ = writeln!(text, "  signing secret  {secret}");
    }
    let _ = writeln!(text, "  managed by      {}, version {}", connection.managed_by, connection.version);
    text
}
