//! `countersign dispatch status`: whether anything is begun.

use api_types::Stopped;
use connectors::Toolbox;
use domain::Timestamp;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use views::time::{self, distance};

/// Show whether steps are begun, and if not, who stopped that and why
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch status --json")]
pub(crate) struct Args {}

pub(super) async fn run(_args: &Args, context: &Context) -> Result<Ending, CliError> {
    let link = context.link_to_look(Toolbox::default())?;
    let dispatch = link.client.dispatch().await?;
    let now = Link::now();
    let mine = format!("tenant {}", link.tenant);
    let text = line("all tenants", dispatch.all.as_ref(), now) + &line(&mine, dispatch.tenant.as_ref(), now);
    context.answer(&text, &json!(dispatch))?;
    Ok(Ending::Done)
}

fn line(whom: &str, stopped: Option<&Stopped>, now: Timestamp) -> String {
    let Some(Stopped { by, reason, at, backout }) = stopped else {
        return format!("{whom}: steps are begun\n");
    };
    let doing = if backout.is_some() { "backing out" } else { "stopped" };
    let ago = time::read(at).map_or_else(String::new, |at| format!(", {}", distance(at, now)));
    format!("{whom}: {doing}, by {by}{ago} ({at}): {reason}\n")
}
