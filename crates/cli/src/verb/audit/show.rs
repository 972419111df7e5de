//! `countersign audit show`.

use api_types::AuditedChange;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;

use super::log::{AuditLog, Scope};

const EXAMPLES: &str = "\
Examples:
  countersign audit show 7
  countersign audit show 7 --json

The entry has the values before and after the change. Its hash covers the entry and all earlier
ones.";

/// Show an administrative change
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The number of the entry
    #[arg(value_name = "SEQUENCE")]
    sequence: u64,
    #[command(flatten)]
    scope: Scope,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let log = AuditLog::open(&args.scope, context)?;
    let Some(change) = log.entry(args.sequence).await? else {
        let (sequence, name) = (args.sequence, log.name());
        return Err(CliError::Usage(format!(
            "entry {sequence} of the audit log of {name} not found; `audit list` lists the entries"
        )));
    };
    context.print(&text(&change), &json!(change))?;
    Ok(ExitStatus::Success)
}

fn text(change: &AuditedChange) -> String {
    let AuditedChange { sequence, at, by, credential, kind, text, previous, hash, entry } = change;
    // A line feed in a reason must not start another field.
    let text = text.replace('\n', " ");
    let values = serde_json::to_string_pretty(&entry["change"]).unwrap_or_default();
    format!(
        "entry       {sequence}\ntime        {at}\nuser        {by}\ncredential  {}\nkind        {kind}\n\
         change      {text}\nprevious    {previous}\nhash        {hash}\n\n{values}\n",
        credential.as_deref().unwrap_or("none"),
    )
}
