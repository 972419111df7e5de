//! Administrative changes: each is written together with its entry in the audit log.

use std::sync::atomic::Ordering;

use domain::audit::{AdminChange, AuditEntry};
use domain::audit_chain::{AuditHead, AuditRecord};
use domain::{Initiator, TenantId, Timestamp};
use store::{AuditPage, AuditedWrite, Cursor, PageQuery, Store, Write};

use super::Core;
use crate::error::EngineError;

/// Who makes a change, and for which tenant; `None` for all tenants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admin<'a> {
    pub(crate) tenant: Option<&'a TenantId>,
    pub(crate) by: &'a Initiator,
}

impl<S: Store> Core<S> {
    pub(crate) async fn write_audited(
        &self,
        admin: Admin<'_>,
        write: AuditedWrite,
        change: AdminChange,
    ) -> Result<Write, EngineError> {
        let tenant = admin.tenant.cloned();
        let entry = AuditEntry { tenant, at: self.audit_time(), by: admin.by.clone(), change };
        let written = self.retry_busy(|store| store.write_audited(write.clone(), entry.clone())).await?;
        if written == Write::Committed {
            tracing::info!(
                event = "admin_change",
                tenant = entry.tenant.as_ref().map(TenantId::as_str),
                by = entry.by.id,
                credential = entry.by.context.get(CREDENTIAL),
                kind = entry.change.kind(),
                change = %entry.change,
                "administrative change"
            );
        }
        Ok(written)
    }

    /// The current time, later than that of every other entry of this process: no two entries have the same digest.
    fn audit_time(&self) -> Timestamp {
        let now = self.now().0;
        let later = |newest: i64| Some(now.max(newest.saturating_add(1)));
        let newest = self.newest_audit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        Timestamp(newest.map_or(now, |newest| now.max(newest.saturating_add(1))))
    }
}

/// The name of the credential in the context of an entry's initiator.
pub(crate) const CREDENTIAL: &str = "credential";

/// A page of the audit log to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditQuery {
    /// The `next` cursor of the previous page.
    pub after: Option<Cursor>,
    /// The maximum number of entries of the page.
    pub limit: u32,
    /// Only changes of this kind.
    pub kind: Option<String>,
}

/// How many entries are read at once to find those of a kind.
const SCAN: u32 = 200;

/// How often. A page may then have fewer entries than its limit, and the next page continues the search.
const SCANS_MAX: u32 = 10;

impl<S: Store> Core<S> {
    /// A page of the log of a tenant, or of the changes for all tenants, newest first.
    pub(crate) async fn audit(
        &self,
        tenant: Option<&TenantId>,
        query: AuditQuery,
    ) -> Result<AuditPage, EngineError> {
        let AuditQuery { mut after, limit, kind } = query;
        let Some(kind) = kind else { return self.audit_page(tenant, PageQuery { after, limit }).await };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut found: Vec<AuditRecord> = Vec::new();
        for _ in 0..SCANS_MAX {
            let page = self.audit_page(tenant, PageQuery { after, limit: SCAN }).await?;
            found.extend(page.entries.into_iter().filter(|record| record.kind() == kind));
            if found.len() > limit {
                found.truncate(limit);
                let next = found.last().map(AuditPage::cursor_after);
                return Ok(AuditPage { entries: found, next });
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(AuditPage { entries: found, next: after })
    }

    async fn audit_page(
        &self,
        tenant: Option<&TenantId>,
        query: PageQuery,
    ) -> Result<AuditPage, EngineError> {
        Ok(self.retry_busy(|store| store.audit(tenant, query.clone())).await?)
    }

    /// An entry of the log.
    pub(crate) async fn audit_record(
        &self,
        tenant: Option<&TenantId>,
        sequence: u64,
    ) -> Result<Option<AuditRecord>, EngineError> {
        Ok(self.retry_busy(|store| store.audit_record(tenant, sequence)).await?)
    }

    /// The head of the log.
    pub(crate) async fn audit_head(&self, tenant: Option<&TenantId>) -> Result<AuditHead, EngineError> {
        Ok(self.retry_busy(|store| store.audit_head(tenant)).await?)
    }
}
