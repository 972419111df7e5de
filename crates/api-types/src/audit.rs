//! The audit log.

use domain::audit::AuditEntry;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use views::time::rfc3339_millis;

/// An administrative change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditedChange {
    pub at: String,
    /// The user who made the change.
    pub by: String,
    /// The name of the user's credential, never its secret; null if the change was not made through the API or the CLI.
    pub credential: Option<String>,
    /// The change in words.
    pub text: String,
    /// The change as data. `kind` is one of `key_created`, `key_revoked`, `settings_changed`, `policy_applied`,
    /// `workflow_applied`, `dispatch_stopped` and `dispatch_started`; the other fields depend on it. Changes for all tenants
    /// may also be `drain_requested`, `dead_letters_redriven` and `store_restored`.
    #[schema(value_type = Object)]
    pub change: Value,
}

impl From<AuditEntry> for AuditedChange {
    fn from(entry: AuditEntry) -> Self {
        Self {
            at: rfc3339_millis(entry.at),
            by: entry.by.id,
            credential: entry.by.context.get("credential").cloned(),
            text: entry.change.to_string(),
            change: json!(entry.change),
        }
    }
}

/// A page of the audit log of a tenant, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditedChanges {
    pub changes: Vec<AuditedChange>,
    /// The cursor of the next page; null on the last page.
    pub next: Option<String>,
}
