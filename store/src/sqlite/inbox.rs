//! The statements about what came in, and about the workflows it may start.

use domain::{Applied, Arrival, Fate, RunKey, TenantId, Timestamp, WorkflowName};
use rusqlite::params;

use crate::inbox::Accepted;
use crate::ledger::Write;

use super::db::{Db, Sql, body, text};

/// How many forgotten arrivals are swept away whenever one comes.
const FORGOTTEN_MAX: u32 = 8;

impl Db {
    pub(super) fn accept(&self, arrival: &Arrival, now: Timestamp) -> Sql<Accepted> {
        self.run(
            "DELETE FROM arrivals WHERE (tenant, run) IN \
             (SELECT tenant, run FROM arrivals WHERE forgotten_at <= ?1 ORDER BY forgotten_at LIMIT ?2)",
            params![now.0, FORGOTTEN_MAX],
        )?;
        let (tenant, proof) = (arrival.run.tenant.as_str(), arrival.proof.as_bytes());
        let known = self.get(
            "SELECT body FROM arrivals WHERE tenant = ?1 AND (run = ?2 OR proof = ?3) AND forgotten_at > ?4 \
             ORDER BY run = ?2 DESC LIMIT 1",
            params![tenant, arrival.run.run.as_str(), proof, now.0],
            body,
        )?;
        if let Some(known) = known {
            return Ok(Accepted::Known(Box::new(known)));
        }
        self.run(
            "INSERT OR REPLACE INTO arrivals (tenant, run, proof, forgotten_at, body) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![tenant, arrival.run.run.as_str(), proof, arrival.forgotten_at().0, text(arrival)?],
        )?;
        Ok(Accepted::New)
    }

    pub(super) fn arrival(&self, run: &RunKey) -> Sql<Option<Arrival>> {
        self.get(
            "SELECT body FROM arrivals WHERE tenant = ?1 AND run = ?2",
            (run.tenant.as_str(), run.run.as_str()),
            body,
        )
    }

    pub(super) fn settle(&self, run: &RunKey, fate: Fate) -> Sql<Write> {
        let Some(arrival) = self.arrival(run)?.filter(|arrival| arrival.fate == Fate::Waiting) else {
            return Ok(Write::Superseded);
        };
        self.run(
            "UPDATE arrivals SET body = ?3 WHERE tenant = ?1 AND run = ?2",
            params![run.tenant.as_str(), run.run.as_str(), text(&Arrival { fate, ..arrival })?],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn apply(&self, applied: &Applied) -> Sql<Write> {
        let name = (applied.tenant.as_str(), applied.workflow.as_str());
        let stands: Option<Applied> =
            self.get("SELECT body FROM workflows WHERE tenant = ?1 AND workflow = ?2", name, body)?;
        if !applied.follows(stands.as_ref()) {
            return Ok(Write::Superseded);
        }
        let body = text(applied)?;
        self.run(
            "INSERT OR REPLACE INTO workflows (tenant, workflow, body) VALUES (?1, ?2, ?3)",
            params![name.0, name.1, body],
        )?;
        self.run(
            "INSERT OR REPLACE INTO workflow_versions (tenant, workflow, version, body) VALUES (?1, ?2, ?3, ?4)",
            params![name.0, name.1, applied.version, body],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn applied(&self, tenant: &TenantId) -> Sql<Vec<Applied>> {
        self.all("SELECT body FROM workflows WHERE tenant = ?1 ORDER BY workflow", [tenant.as_str()], body)
    }

    pub(super) fn versions(&self, tenant: &TenantId, workflow: &WorkflowName) -> Sql<Vec<Applied>> {
        self.all(
            "SELECT body FROM workflow_versions WHERE tenant = ?1 AND workflow = ?2 ORDER BY version DESC",
            (tenant.as_str(), workflow.as_str()),
            body,
        )
    }
}
