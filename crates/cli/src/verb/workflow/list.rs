//! `countersign workflow list`.

use serde_json::Value;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;

use super::apply::{to_json, trigger_text};

/// List applied workflows and their triggers
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let applied = context.connect()?.client.workflows().await?.workflows;
    let rows: Vec<_> = applied
        .iter()
        .map(|applied| {
            let by = trigger_text(applied.trigger.as_ref());
            [applied.workflow.to_string(), applied.version.to_string(), by]
        })
        .collect();
    let text = match rows.len() {
        0 => "no applied workflows; apply one with `countersign workflow apply FILE`\n".to_owned(),
        _ => table(["WORKFLOW", "VERSION", "TRIGGER"], &rows),
    };
    context.print(&text, &applied.iter().map(to_json).collect::<Value>())?;
    Ok(ExitStatus::Success)
}
