//! `countersign audit`.

use api_types::{AuditedChange, LIMIT_MAX};
use engine::Engine;
use serde_json::json;
use store::Store;

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;

const EXAMPLES: &str = "\
Examples:
  countersign audit
  countersign audit --limit 500 --json
  countersign audit --all                 changes for all tenants
  countersign audit --all --aws           use the account that the environment names

The log has every change of API keys, users, groups, limits, the policy, workflows and the dispatch
switch of the tenant: who made it, with which credential, and what it changed. It needs the role
admin. The changes for all tenants are in a log of their own: dispatch and backout with --all, drained
workers, redriven messages and a restored store. That log is read from the store.";

/// Show who changed keys, users, groups, the policy, workflows and dispatch
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many changes to show, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// Show the changes for all tenants instead: of the store, not through a server
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let changes = if args.all {
        with_store!(context.any_store(IfMissing::Fail)?, |store| {
            fleet_changes(&command_engine(store, default_tools())?, args.limit).await
        })?
    } else {
        tenant_changes(context, args.limit).await?
    };
    let rows: Vec<_> = changes.iter().map(row).collect();
    let text = match rows.len() {
        0 => "no administrative changes\n".to_owned(),
        _ => table(["TIME", "USER", "CREDENTIAL", "CHANGE"], &rows),
    };
    context.print(&text, &json!({ "changes": changes }))?;
    Ok(ExitStatus::Success)
}

async fn tenant_changes(context: &Context, limit: u32) -> Result<Vec<AuditedChange>, CliError> {
    let session = context.connect()?;
    let (mut changes, mut cursor) = (Vec::new(), None);
    loop {
        let left = left_of(limit, &changes);
        if left == 0 {
            return Ok(changes);
        }
        let page = session.client.audit(cursor, left).await?;
        changes.extend(page.changes);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(changes);
        }
    }
}

async fn fleet_changes<S: Store>(engine: &Engine<S>, limit: u32) -> Result<Vec<AuditedChange>, CliError> {
    let (mut changes, mut cursor) = (Vec::new(), None);
    loop {
        let left = left_of(limit, &changes);
        if left == 0 {
            return Ok(changes);
        }
        let page = engine.operations().fleet_audit(cursor, left).await?;
        changes.extend(page.entries.into_iter().map(AuditedChange::from));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(changes);
        }
    }
}

/// How many changes to read next.
fn left_of(limit: u32, changes: &[AuditedChange]) -> u32 {
    limit.saturating_sub(u32::try_from(changes.len()).unwrap_or(u32::MAX)).min(LIMIT_MAX)
}

fn row(change: &AuditedChange) -> [String; 4] {
    let credential = change.credential.clone().unwrap_or_default();
    [change.at.clone(), change.by.clone(), credential, change.text.clone()]
}
