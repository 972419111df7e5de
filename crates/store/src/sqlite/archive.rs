//! SQL statements for the transparency log and the evidence of runs.

use domain::merkle::{Frontier, Position};
use domain::{Digest, Evidence, RunKey};
use rusqlite::params;

use crate::ledger::Write;

use super::db::{Db, Sql, body, text};

impl Db {
    /// Returns `None` if the run does not exist.
    pub(super) fn append_log(&self, run: &RunKey, leaf: Digest) -> Sql<Option<Position>> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(None) };
        if let Some(position) = self.get("SELECT position FROM log WHERE run = ?1", [id], body)? {
            return Ok(Some(position));
        }
        let mut frontier: Frontier =
            self.get("SELECT frontier FROM log_head WHERE id = 1", [], body)?.unwrap_or_default();
        let position = frontier.push(leaf);
        let n = i64::try_from(position.index).unwrap_or(i64::MAX);
        self.run("INSERT INTO log (n, run, position) VALUES (?1, ?2, ?3)", params![n, id, text(&position)?])?;
        self.run("INSERT OR REPLACE INTO log_head (id, frontier) VALUES (1, ?1)", [text(&frontier)?])?;
        Ok(Some(position))
    }

    pub(super) fn put_evidence(&self, run: &RunKey, evidence: &Evidence) -> Sql<Write> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(Write::Superseded) };
        let written = self.changed(
            "INSERT OR IGNORE INTO evidence (run, body) VALUES (?1, ?2)",
            params![id, text(evidence)?],
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
