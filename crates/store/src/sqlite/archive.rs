//! SQL statements for the transparency log, and for the bundles and the evidence of runs.

use domain::merkle::{Frontier, Position};
use domain::{Digest, Evidence, RunKey, TenantId};
use rusqlite::{Row, params};

use crate::archive::LogPosition;
use crate::ledger::Write;

use super::db::{Db, Sql, body, to_json};

/// Why nothing can be appended to the log.
#[derive(Debug, thiserror::Error)]
#[error(
    "the rows of the transparency log contradict its head: the store was altered; restore it from a backup, or \
     compare it with exported bundles"
)]
struct AlteredLog;

impl Db {
    /// Returns `None` if the run does not exist.
    pub(super) fn append_log(&self, run: &RunKey, leaf: Digest) -> Sql<Option<LogPosition>> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(None) };
        let (log, mut frontier) = self.log_head()?;
        if let Some(position) = self.get("SELECT position FROM log WHERE run = ?1", [id], body)? {
            return Ok(Some(LogPosition { log, position }));
        }
        self.check_log(&frontier)?;
        let position = frontier.push(leaf);
        let n = i64::try_from(position.index).unwrap_or(i64::MAX);
        self.run(
            "INSERT INTO log (n, run, position) VALUES (?1, ?2, ?3)",
            params![n, id, to_json(&position)?],
        )?;
        let head = params![log, to_json(&frontier)?];
        self.run("INSERT OR REPLACE INTO log_head (id, log, frontier) VALUES (1, ?1, ?2)", head)?;
        Ok(Some(LogPosition { log, position }))
    }

    /// The name of the log, which is random, and its frontier.
    fn log_head(&self) -> Sql<(String, Frontier)> {
        let head = |row: &Row<'_>| Ok((row.get(1)?, body(row)?));
        if let Some(head) = self.get("SELECT frontier, log FROM log_head WHERE id = 1", [], head)? {
            return Ok(head);
        }
        let name = self.get("SELECT lower(hex(randomblob(8)))", [], |row| row.get(0))?;
        Ok((name.unwrap_or_default(), Frontier::default()))
    }

    pub(super) fn rename_log(&self) -> Sql<()> {
        self.run("UPDATE log_head SET log = lower(hex(randomblob(8)))", [])
    }

    /// The newest entry has the size and the root of the head.
    fn check_log(&self, frontier: &Frontier) -> Sql<()> {
        let newest: Option<Position> =
            self.get("SELECT position FROM log ORDER BY n DESC LIMIT 1", [], body)?;
        let newest = newest.map(|newest| (newest.size, newest.root));
        if newest == frontier.root().map(|root| (frontier.size(), root)) {
            return Ok(());
        }
        Err(rusqlite::Error::ToSqlConversionFailure(AlteredLog.into()))
    }

    /// The bundle that has the name already. `None` if this one is stored.
    pub(super) fn put_bundle(&self, tenant: &TenantId, name: &str, bytes: &[u8]) -> Sql<Option<Vec<u8>>> {
        if let Some(stored) = self.bundle(tenant, name)? {
            return Ok(Some(stored));
        }
        let bundle = params![tenant.as_str(), name, bytes];
        self.run("INSERT INTO bundles (tenant, name, body) VALUES (?1, ?2, ?3)", bundle)?;
        Ok(None)
    }

    pub(super) fn bundle(&self, tenant: &TenantId, name: &str) -> Sql<Option<Vec<u8>>> {
        let sql = "SELECT body FROM bundles WHERE tenant = ?1 AND name = ?2";
        self.get(sql, params![tenant.as_str(), name], |row| row.get(0))
    }

    pub(super) fn put_evidence(&self, run: &RunKey, evidence: &Evidence) -> Sql<Write> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(Write::Superseded) };
        let written = self.changed(
            "INSERT OR IGNORE INTO evidence (run, body) VALUES (?1, ?2)",
            params![id, to_json(evidence)?],
        )?;
        Ok(if written { Write::Committed } else { Write::Superseded })
    }

    pub(super) fn evidence(&self, run: &RunKey) -> Sql<Option<Evidence>> {
        match self.run_id(run)? {
            Some((id, _)) => self.get("SELECT body FROM evidence WHERE run = ?1", [id], body),
            None => Ok(None),
        }
    }
}
