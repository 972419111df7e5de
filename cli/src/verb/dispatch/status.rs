//! `countersign dispatch status`: whether anything is begun.

use domain::Stopped;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use telling::time::{distance, moment};

/// Show whether steps are begun, and if not, who stopped that and why
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  countersign dispatch status --json")]
pub(crate) struct Args {}

pub(super) async fn run(_args: &Args, context: &Context) -> Result<Ending, CliError> {
    let engine = context.engine()?;
    let dispatch = engine.dispatch(&context.tenant).await?;
    let now = engine.now();
    let line = |whom: &str, stopped: &Option<Stopped>| match stopped {
        None => format!("{whom}: steps are begun\n"),
        Some(stopped) => {
            let doing = if stopped.backout.is_some() { "backing out" } else { "stopped" };
            let (by, at) = (&stopped.by.id, distance(stopped.at, now));
            format!("{whom}: {doing}, by {by}, {at} ({}): {}\n", moment(stopped.at), stopped.reason)
        }
    };
    let mine = format!("tenant {}", context.tenant);
    let text = line("all tenants", &dispatch.fleet) + &line(&mine, &dispatch.tenant);
    let json = json!({ "all": dispatch.fleet, "tenant": dispatch.tenant, "stopped": dispatch.is_stopped() });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}
