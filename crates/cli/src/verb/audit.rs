//! `countersign audit`.

use api_types::{AuditedChange, LIMIT_MAX};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;

const EXAMPLES: &str = "\
Examples:
  countersign audit
  countersign audit --limit 500 --json

The log has every change of API keys, users, groups, limits, the policy, workflows and the dispatch
switch of the tenant: who made it, with which credential, and what it changed. It needs the role
admin.";

/// Show who changed keys, users, groups, the policy, workflows and dispatch
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many changes to show, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let session = context.connect()?;
    let mut changes: Vec<AuditedChange> = Vec::new();
    let mut cursor = None;
    loop {
        let left = args.limit.saturating_sub(u32::try_from(changes.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        let page = session.client.audit(cursor, left.min(LIMIT_MAX)).await?;
        changes.extend(page.changes);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let rows: Vec<_> = changes.iter().map(row).collect();
    let text = match rows.len() {
        0 => "no administrative changes\n".to_owned(),
        _ => table(["TIME", "USER", "CREDENTIAL", "CHANGE"], &rows),
    };
    context.print(&text, &json!({ "changes": changes }))?;
    Ok(ExitStatus::Success)
}

fn row(change: &AuditedChange) -> [String; 4] {
    let credential = change.credential.clone().unwrap_or_default();
    [change.at.clone(), change.by.clone(), credential, change.text.clone()]
}
