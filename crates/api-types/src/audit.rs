//! The audit log.

use domain::Digest;
use domain::audit_chain::{AuditHead, AuditRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use views::time::rfc3339_millis;

/// An administrative change, with its place in the chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "sequence": 7,
    "at": "2026-03-02T09:15:04.120Z",
    "by": "ada",
    "credential": "key:0123456789abcdef",
    "kind": "dispatch_started",
    "text": "started dispatch",
    "previous": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "hash": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
    "entry": {
        "tenant": "acme",
        "at": 1_772_442_904_120_i64,
        "by": { "cause": "user", "id": "ada", "context": { "credential": "key:0123456789abcdef" } },
        "change": { "kind": "dispatch_started" }
    }
}))]
pub struct AuditedChange {
    /// The number of the entry, from 1.
    pub sequence: u64,
    pub at: String,
    /// The user who made the change.
    pub by: String,
    /// The name of the user's credential, never its secret; null if the change was not made through the API or the CLI.
    pub credential: Option<String>,
    /// One of `key_created`, `key_revoked`, `settings_changed`, `connection_set`, `connection_removed`, `policy_applied`,
    /// `workflow_applied`, `dispatch_stopped` and `dispatch_started`. Changes for all tenants may also be `drain_requested`,
    /// `dead_letters_redriven` and `store_restored`.
    pub kind: String,
    /// The change in words.
    pub text: String,
    /// The hash of the entry before; zeros for the first.
    #[schema(value_type = String)]
    pub previous: Digest,
    /// The hash of this entry and all earlier ones.
    #[schema(value_type = String)]
    pub hash: Digest,
    /// The entry that the hash covers: `tenant`, `at` in milliseconds since 1970, `by`, and the `change` with its values
    /// before and after.
    #[schema(value_type = Object)]
    pub entry: Value,
}

impl From<AuditRecord> for AuditedChange {
    fn from(record: AuditRecord) -> Self {
        let kind = record.kind().to_owned();
        let (at, by, credential, text) = match record.entry() {
            Ok(entry) => {
                let credential = entry.by.context.get("credential").cloned();
                (rfc3339_millis(entry.at), entry.by.id, credential, entry.change.to_string())
            }
            // It stays listed: a newer program wrote it, or it was altered, which a verification shows.
            Err(error) => (String::new(), String::new(), None, format!("unreadable entry: {error}")),
        };
        let AuditRecord { sequence, previous, hash, entry } = record;
        Self { sequence, at, by, credential, kind, text, previous, hash, entry }
    }
}

impl From<AuditedChange> for AuditRecord {
    fn from(change: AuditedChange) -> Self {
        let AuditedChange { sequence, previous, hash, entry, .. } = change;
        Self { sequence, previous, hash, entry }
    }
}

/// A page of the audit log of a tenant, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditedChanges {
    pub changes: Vec<AuditedChange>,
    /// The cursor of the next page; null on the last page. With `kind`, a page may have fewer changes than `limit` and a
    /// next page.
    pub next: Option<String>,
}

/// The newest entry of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "sequence": 7,
    "hash": "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"
}))]
pub struct AuditLogHead {
    /// The number of the newest entry, which is also the number of entries; 0 for an empty log.
    pub sequence: u64,
    /// The hash of the newest entry, which covers all entries; zeros for an empty log.
    #[schema(value_type = String)]
    pub hash: Digest,
}

impl From<AuditHead> for AuditLogHead {
    fn from(AuditHead { sequence, hash }: AuditHead) -> Self {
        Self { sequence, hash }
    }
}

impl From<AuditLogHead> for AuditHead {
    fn from(AuditLogHead { sequence, hash }: AuditLogHead) -> Self {
        Self { sequence, hash }
    }
}
