//! SQL statements for tenant settings, policies, approval requests, cards and pages.

use domain::{Approval, ApprovalId, Card, Digest, Fleet, Page, RunKey, Tenant, TenantId};
use rusqlite::{Row, params};

use crate::cursor::Cursor;
use crate::governance::{ApprovalPage, PolicyFiles};
use crate::ledger::Write;

use super::db::{Db, Sql, body, to_json};

impl Db {
    /// Whether each of `approvals` is newer than the stored revision.
    pub(super) fn approvals_are_current(&self, approvals: &[Approval]) -> Sql<bool> {
        for approval in approvals {
            let current = self.approval(&approval.run.tenant, &approval.id)?;
            if current.is_some_and(|current| current.revision >= approval.revision) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn write_approvals(&self, run: i64, approvals: &[Approval]) -> Sql<()> {
        for approval in approvals {
            let open = approval.is_open().then_some(1);
            self.run(
                "INSERT INTO approvals (tenant, approval, run, open, body) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (tenant, approval) DO UPDATE SET open = ?4, body = ?5",
                params![approval.run.tenant.as_str(), approval.id.as_str(), run, open, to_json(approval)?],
            )?;
        }
        Ok(())
    }

    pub(super) fn approval(&self, tenant: &TenantId, id: &ApprovalId) -> Sql<Option<Approval>> {
        self.get(
            "SELECT body FROM approvals WHERE tenant = ?1 AND approval = ?2",
            (tenant.as_str(), id.as_str()),
            body,
        )
    }

    pub(super) fn approvals(&self, run: &RunKey) -> Sql<Vec<Approval>> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(Vec::new()) };
        self.all("SELECT body FROM approvals WHERE run = ?1 ORDER BY id", [id], body)
    }

    pub(super) fn open_approvals(
        &self,
        tenant: &TenantId,
        after: Option<i64>,
        limit: u32,
    ) -> Sql<ApprovalPage> {
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(1)?, body(row)?));
        let mut found: Vec<(i64, Approval)> = self.all(
            "SELECT body, id FROM approvals WHERE tenant = ?1 AND open IS NOT NULL AND id > ?2 \
             ORDER BY id LIMIT ?3",
            params![tenant.as_str(), after.unwrap_or(0), limit.saturating_add(1)],
            row,
        )?;
        let more = found.len() > usize::try_from(limit).unwrap_or(usize::MAX);
        if more {
            found.pop();
        }
        let next = found.last().filter(|_| more).map(|(id, _)| Cursor::new(id.to_string()));
        Ok(ApprovalPage { approvals: found.into_iter().map(|(_, approval)| approval).collect(), next })
    }

    pub(super) fn card(&self, tenant: &TenantId, id: &ApprovalId) -> Sql<Option<Card>> {
        self.get(
            "SELECT body FROM cards WHERE tenant = ?1 AND approval = ?2",
            (tenant.as_str(), id.as_str()),
            body,
        )
    }

    pub(super) fn put_card(
        &self,
        (tenant, id): (&TenantId, &ApprovalId),
        card: &Card,
        replaces: Option<&Card>,
    ) -> Sql<Write> {
        if self.card(tenant, id)?.as_ref() != replaces {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO cards (tenant, approval, body) VALUES (?1, ?2, ?3)",
            params![tenant.as_str(), id.as_str(), to_json(card)?],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn page(&self, tenant: &TenantId, id: &ApprovalId) -> Sql<Option<Page>> {
        self.get(
            "SELECT body FROM pages WHERE tenant = ?1 AND approval = ?2",
            (tenant.as_str(), id.as_str()),
            body,
        )
    }

    pub(super) fn put_page(
        &self,
        (tenant, id): (&TenantId, &ApprovalId),
        page: &Page,
        replaces: Option<&Page>,
    ) -> Sql<Write> {
        if self.page(tenant, id)?.as_ref() != replaces {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO pages (tenant, approval, body) VALUES (?1, ?2, ?3)",
            params![tenant.as_str(), id.as_str(), to_json(page)?],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn tenant(&self, tenant: &TenantId) -> Sql<Option<Tenant>> {
        self.get("SELECT body FROM tenants WHERE tenant = ?1", [tenant.as_str()], body)
    }

    pub(super) fn put_tenant(&self, tenant: &Tenant) -> Sql<Write> {
        let current = self.tenant(&tenant.tenant)?.map(|tenant| tenant.revision);
        if current != tenant.revision.checked_sub(1) {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO tenants (tenant, revision, body) VALUES (?1, ?2, ?3)",
            params![tenant.tenant.as_str(), tenant.revision, to_json(tenant)?],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn fleet(&self) -> Sql<Option<Fleet>> {
        self.get("SELECT body FROM fleet WHERE id = 1", [], body)
    }

    pub(super) fn put_fleet(&self, fleet: &Fleet) -> Sql<Write> {
        let current = self.fleet()?.map(|fleet| fleet.revision);
        if current != fleet.revision.checked_sub(1) {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO fleet (id, revision, body) VALUES (1, ?1, ?2)",
            params![fleet.revision, to_json(fleet)?],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn put_policy(&self, tenant: &TenantId, hash: &Digest, files: &PolicyFiles) -> Sql<()> {
        self.run(
            "INSERT OR IGNORE INTO policies (tenant, hash, body) VALUES (?1, ?2, ?3)",
            params![tenant.as_str(), hash.as_bytes(), to_json(files)?],
        )
    }

    pub(super) fn policy(&self, tenant: &TenantId, hash: &Digest) -> Sql<Option<PolicyFiles>> {
        self.get(
            "SELECT body FROM policies WHERE tenant = ?1 AND hash = ?2",
            params![tenant.as_str(), hash.as_bytes()],
            body,
        )
    }
}
