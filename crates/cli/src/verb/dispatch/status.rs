//! `countersign dispatch status`.

use api_types::Stopped;
use connectors::ToolRegistry;
use domain::Timestamp;
use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::time::{self, relative};

/// Show whether dispatch is stopped, by whom and why
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch status --json")]
pub(crate) struct Args {}

pub(super) async fn run(_args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let session = context.connect_read_only(ToolRegistry::default().into())?;
    let dispatch = session.client.dispatch().await?;
    let now = ApiSession::now();
    let tenant = format!("tenant {}", session.tenant);
    let text = line("all tenants", dispatch.all_tenants.as_ref(), now)
        + &line(&tenant, dispatch.tenant.as_ref(), now);
    context.print(&text, &json!(dispatch))?;
    Ok(ExitStatus::Success)
}

fn line(scope: &str, stopped: Option<&Stopped>, now: Timestamp) -> String {
    let Some(Stopped { by, reason, at, backout_started_at }) = stopped else {
        return format!("{scope}: dispatch is running\n");
    };
    let state = if backout_started_at.is_some() { "backing out" } else { "stopped" };
    let ago = time::parse(at).map_or_else(String::new, |at| format!(", {}", relative(at, now)));
    format!("{scope}: {state} by {by}{ago} ({at}): {reason}\n")
}
