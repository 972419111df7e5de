//! Administrative changes: each is written together with its entry in the audit log.

use std::sync::atomic::Ordering;

use domain::audit::{AdminChange, AuditEntry};
use domain::{Initiator, TenantId, Timestamp};
use store::{AuditedWrite, Store, Write};

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

    /// The current time, later than that of every other entry of this process: the log is ordered by it.
    fn audit_time(&self) -> Timestamp {
        let now = self.now().0;
        let later = |newest: i64| Some(now.max(newest.saturating_add(1)));
        let newest = self.newest_audit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        Timestamp(newest.map_or(now, |newest| now.max(newest.saturating_add(1))))
    }
}

/// The name of the credential in the context of an entry's initiator.
pub(crate) const CREDENTIAL: &str = "credential";
