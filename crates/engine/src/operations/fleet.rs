//! Operations on the whole installation, and the audit log of the changes for all tenants.

use domain::Initiator;
use domain::audit::AdminChange;
use domain::audit_chain::{AuditHead, AuditRecord};
use store::{AuditPage, AuditedWrite, Store};

use crate::core::audit::{Admin, AuditQuery};
use crate::error::EngineError;
use crate::operations::OperationsService;

impl<S: Store> OperationsService<'_, S> {
    /// Moves up to `limit` dead-letter messages back to their queues, oldest first; returns how many. The audit entry is
    /// written first, so that no message is moved without one.
    pub async fn redrive(self, limit: u32, by: &Initiator) -> Result<u32, EngineError> {
        self.record_change(AdminChange::DeadLettersRedriven { limit }, by).await?;
        Ok(self.core.store.redrive(limit).await?)
    }

    /// Records in a restored store that it was restored from the file `copy`.
    pub async fn record_restore(self, copy: &str, by: &Initiator) -> Result<(), EngineError> {
        self.record_change(AdminChange::StoreRestored { copy: copy.to_owned() }, by).await
    }

    async fn record_change(self, change: AdminChange, by: &Initiator) -> Result<(), EngineError> {
        let admin = Admin { tenant: None, by };
        self.core.write_audited(admin, AuditedWrite::EntryOnly, change).await.map(drop)
    }

    /// A page of the audit log of the changes for all tenants, newest first.
    pub async fn fleet_audit(self, query: AuditQuery) -> Result<AuditPage, EngineError> {
        self.core.audit(None, query).await
    }

    /// An entry of that log.
    pub async fn fleet_audit_record(self, sequence: u64) -> Result<Option<AuditRecord>, EngineError> {
        self.core.audit_record(None, sequence).await
    }

    /// The head of that log.
    pub async fn fleet_audit_head(self) -> Result<AuditHead, EngineError> {
        self.core.audit_head(None).await
    }
}
