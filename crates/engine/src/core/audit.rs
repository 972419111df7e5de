//! Administrative changes: each is written together with its entry in the audit log.

use domain::audit::{AdminChange, AuditEntry};
use domain::{Initiator, TenantId};
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
        let entry = AuditEntry { tenant, at: self.now(), by: admin.by.clone(), change };
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
}

/// The name of the credential in the context of an entry's initiator.
pub(crate) const CREDENTIAL: &str = "credential";
