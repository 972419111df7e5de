//! `countersign workflow list`: the workflows in use.

use serde_json::Value;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use views::table::table;

use super::apply::{starts, to_json};

/// List the workflows in use, and what starts each
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args, context: &Context) -> Result<Ending, CliError> {
    let applied = context.link()?.client.workflows().await?.workflows;
    let rows: Vec<_> = applied
        .iter()
        .map(|applied| {
            let by = starts(applied.trigger.as_ref());
            [applied.workflow.to_string(), applied.version.to_string(), by]
        })
        .collect();
    let text = match rows.len() {
        0 => "no workflow is in use; put one to use with `countersign workflow apply FILE`\n".to_owned(),
        _ => table(["WORKFLOW", "VERSION", "STARTS"], &rows),
    };
    context.answer(&text, &applied.iter().map(to_json).collect::<Value>())?;
    Ok(Ending::Done)
}
