//! SQL statements for the audit log.

use domain::audit::AuditEntry;
use domain::{TenantId, Timestamp};
use rusqlite::params;

use crate::audit::{AuditPage, AuditedWrite};
use crate::cursor::{Cursor, PageQuery};
use crate::ledger::Write;

use super::db::{Db, Sql, body, to_json};

impl Db {
    pub(super) fn write_audited(
        &self,
        write: &AuditedWrite,
        entry: &AuditEntry,
        now: Timestamp,
    ) -> Sql<Write> {
        let written = match write {
            AuditedWrite::Key(key) => self.put_key(key)?,
            AuditedWrite::Tenant(tenant) => self.put_tenant(tenant)?,
            AuditedWrite::Fleet(fleet) => self.put_fleet(fleet)?,
            AuditedWrite::Workflow(applied, due) => self.apply(applied, *due)?,
            AuditedWrite::Worker(worker) => self.put_worker(worker, now)?,
            AuditedWrite::EntryOnly => Write::Committed,
        };
        if written == Write::Committed {
            self.run(
                "INSERT OR REPLACE INTO audit (tenant, id, body) VALUES (?1, ?2, ?3)",
                params![scope(entry.tenant.as_ref()), entry.id(), to_json(entry)?],
            )?;
        }
        Ok(written)
    }

    pub(super) fn audit(&self, tenant: Option<&TenantId>, query: &PageQuery) -> Sql<AuditPage> {
        let after = query.after.as_ref().map_or("", Cursor::as_str);
        let found = self.all(
            "SELECT body FROM audit WHERE tenant = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            params![scope(tenant), after, query.limit.saturating_add(1)],
            body,
        )?;
        Ok(AuditPage::of(found, query.limit))
    }
}

/// No tenant has an empty id, so the empty text stands for all tenants.
fn scope(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}
