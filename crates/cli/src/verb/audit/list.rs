//! `countersign audit list`.

use api_types::AuditedChange;
use clap::builder::PossibleValuesParser;
use domain::audit::AdminChange;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;

use super::log::{AuditLog, Scope};

const EXAMPLES: &str = "\
Examples:
  countersign audit list
  countersign audit list --kind key_created
  countersign audit list --limit 500 --json
  countersign audit list --all                 changes for all tenants
  countersign audit list --all --aws           use the account that the environment names

The log has every change of API keys, users, groups, limits, connections, the policy, workflows and
the dispatch switch of the tenant: who made it, with which credential, and what it changed. It needs
the role admin. The changes for all tenants are in a log of their own: dispatch and backout with
--all, drained workers, redriven messages and a restored store. That log is read from the store.";

/// List who changed keys, users, groups, connections, the policy, workflows and dispatch
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many changes to list, newest first
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// List only changes of this kind
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(AdminChange::KINDS))]
    kind: Option<String>,
    #[command(flatten)]
    scope: Scope,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let log = AuditLog::open(&args.scope, context)?;
    let changes = log.newest(args.kind.as_deref(), args.limit).await?;
    let rows: Vec<_> = changes.iter().map(row).collect();
    let text = match rows.len() {
        0 => "no administrative changes\n".to_owned(),
        _ => table(["ENTRY", "TIME", "USER", "CREDENTIAL", "CHANGE"], &rows),
    };
    context.print(&text, &json!({ "changes": changes }))?;
    Ok(ExitStatus::Success)
}

fn row(change: &AuditedChange) -> [String; 5] {
    let credential = change.credential.clone().unwrap_or_default();
    let AuditedChange { sequence, at, by, text, .. } = change.clone();
    [sequence.to_string(), at, by, credential, text]
}
