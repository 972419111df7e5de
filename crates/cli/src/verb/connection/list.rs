//! `countersign connection list`.

use std::path::PathBuf;

use api_types::Connection;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;

/// List connections with their kind, environment and address
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also list the connections in this configuration of the workers. Not available with a server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let connections =
        context.connect_or_create_with(args.config.as_deref())?.client.connections().await?.connections;
    let rows: Vec<_> = connections.iter().map(row).collect();
    let text = match rows.len() {
        0 => "no connections; add one with `countersign connection set`\n".to_owned(),
        _ => table(["CONNECTION", "KIND", "ENVIRONMENT", "ADDRESS", "AUTHENTICATION", "MANAGED BY"], &rows),
    };
    context.print(&text, &json!({ "connections": connections }))?;
    Ok(ExitStatus::Success)
}

fn row(connection: &Connection) -> [String; 6] {
    let Connection { name, kind, environment, base_url, authentication, managed_by, .. } = connection;
    let (name, kind, environment) = (name.to_string(), kind.to_string(), environment.to_string());
    [name, kind, environment, base_url.clone(), authentication.clone(), managed_by.clone()]
}
