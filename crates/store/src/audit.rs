//! The audit log of administrative changes.

use std::future::Future;

use domain::audit::AuditEntry;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The entries of this page.
    pub entries: Vec<AuditEntry>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<Cursor>,
}

impl AuditPage {
    /// Builds a page from `found`, which holds `limit + 1` entries if there is another page.
    pub(crate) fn of(mut found: Vec<AuditEntry>, limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| Cursor::new(last.id()));
        Self { entries: found, next }
    }
}

/// The administrative changes of a tenant. Entries are never changed or deleted.
pub trait AuditLog {
    /// Makes the change and appends `entry`, both or neither. `Superseded` as the method that `write` stands for.
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
}
