//! SQL statements for the audit log.

use domain::audit::AuditEntry;
use domain::audit_chain::{AuditHead, AuditRecord};
use domain::{TenantId, Timestamp};
use rusqlite::params;

use crate::audit::{AuditPage, AuditedWrite, sequence_before};
use crate::cursor::PageQuery;
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
            self.append_audit_entry(entry)?;
        }
        Ok(written)
    }

    /// Appends `entry` to its chain. The transaction of the change holds the write lock, so the head is current.
    fn append_audit_entry(&self, entry: &AuditEntry) -> Sql<()> {
        let (scope, digest) = (scope(entry.tenant.as_ref()), entry.digest());
        let known: Option<i64> = self.get(
            "SELECT 1 FROM audit WHERE tenant = ?1 AND digest = ?2",
            params![scope, digest.as_bytes()],
            |row| row.get(0),
        )?;
        if known.is_some() {
            return Ok(());
        }
        let record = self.audit_head(entry.tenant.as_ref())?.append(entry);
        self.run(
            "INSERT INTO audit (tenant, sequence, digest, body) VALUES (?1, ?2, ?3, ?4)",
            params![scope, row_number(record.sequence), digest.as_bytes(), to_json(&record)?],
        )?;
        self.run(
            "INSERT OR REPLACE INTO audit_heads (tenant, body) VALUES (?1, ?2)",
            params![scope, to_json(&record.head())?],
        )
    }

    pub(super) fn audit(&self, tenant: Option<&TenantId>, query: &PageQuery) -> Sql<AuditPage> {
        let before = row_number(sequence_before(query));
        let found = self.all(
            "SELECT body FROM audit WHERE tenant = ?1 AND sequence < ?2 ORDER BY sequence DESC LIMIT ?3",
            params![scope(tenant), before, query.limit.saturating_add(1)],
            body,
        )?;
        Ok(AuditPage::of(found, query.limit))
    }

    pub(super) fn audit_record(&self, tenant: Option<&TenantId>, sequence: u64) -> Sql<Option<AuditRecord>> {
        self.get(
            "SELECT body FROM audit WHERE tenant = ?1 AND sequence = ?2",
            params![scope(tenant), row_number(sequence)],
            body,
        )
    }

    pub(super) fn audit_head(&self, tenant: Option<&TenantId>) -> Sql<AuditHead> {
        let head = self.get("SELECT body FROM audit_heads WHERE tenant = ?1", [scope(tenant)], body)?;
        Ok(head.unwrap_or_default())
    }
}

/// No tenant has an empty id, so the empty text stands for all tenants.
fn scope(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}

fn row_number(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}
