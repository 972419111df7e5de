//! The audit log of administrative changes.

use std::future::Future;

use domain::audit::AuditEntry;
use domain::audit_chain::{AuditHead, AuditRecord};
use domain::{ApiKey, AppliedWorkflow, Fleet, Tenant, TenantId, Timestamp, WorkerRecord};

use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::ledger::Write;

/// An administrative change of the store.
#[derive(Debug, Clone, PartialEq)]
pub enum AuditedWrite {
    /// As [`crate::Access::put_key`].
    Key(ApiKey),
    /// As [`crate::Governance::put_tenant`].
    Tenant(Tenant),
    /// As [`crate::Governance::put_fleet`].
    Fleet(Fleet),
    /// As [`crate::Inbox::apply`].
    Workflow(AppliedWorkflow, Option<Timestamp>),
    /// As [`crate::WorkerRegistry::put_worker`].
    Worker(WorkerRecord),
    /// Nothing: the change is made outside the store's records.
    EntryOnly,
}

/// A page of the audit log, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditPage {
    /// The entries of this page.
    pub entries: Vec<AuditRecord>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

impl AuditPage {
    /// Builds a page from `found`, which holds `limit + 1` entries if there is another page.
    pub(crate) fn of(mut found: Vec<AuditRecord>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(Self::cursor_after);
        Self { entries: found, next }
    }

    /// The cursor of the page that starts after `record`.
    pub fn cursor_after(record: &AuditRecord) -> Cursor {
        Cursor::new(record.sequence.to_string())
    }
}

/// The number of the entry that ended the previous page; the newest entry has the largest.
pub(crate) fn sequence_before(query: &PageQuery) -> u64 {
    let after = query.after.as_ref().and_then(|after| after.as_str().parse().ok());
    after.unwrap_or(u64::MAX)
}

/// The administrative changes of a tenant, as a chain of hashes. Entries are never changed or deleted.
pub trait AuditLog {
    /// Makes the change and appends `entry` to the chain, both or neither. `Superseded` as the method that `write` stands
    /// for. An entry that the log has already is not appended again, so that a caller can repeat the write.
    fn write_audited(
        &self,
        write: AuditedWrite,
        entry: AuditEntry,
    ) -> impl Future<Output = Result<Write, StoreError>> + Send;

    /// Reads a page of the log of a tenant, or of the changes for all tenants, newest first.
    fn audit(
        &self,
        tenant: Option<&TenantId>,
        query: PageQuery,
    ) -> impl Future<Output = Result<AuditPage, StoreError>> + Send;

    /// Reads one entry of the log.
    fn audit_record(
        &self,
        tenant: Option<&TenantId>,
        sequence: u64,
    ) -> impl Future<Output = Result<Option<AuditRecord>, StoreError>> + Send;

    /// Reads the head of the log.
    fn audit_head(
        &self,
        tenant: Option<&TenantId>,
    ) -> impl Future<Output = Result<AuditHead, StoreError>> + Send;
}
