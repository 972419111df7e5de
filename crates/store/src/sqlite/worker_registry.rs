//! SQL statements for the worker registry.

use domain::worker_registry::RECORD_TTL;
use domain::{Timestamp, WorkerId, WorkerRecord};
use rusqlite::params;

use crate::ledger::Write;
use crate::worker_registry::WORKERS_MAX;

use super::db::{Db, Sql, body, to_json};

impl Db {
    pub(super) fn worker(&self, worker: &WorkerId) -> Sql<Option<WorkerRecord>> {
        self.get("SELECT body FROM workers WHERE worker = ?1", [worker.as_str()], body)
    }

    /// Every heartbeat also deletes expired workers.
    pub(super) fn put_worker(&self, worker: &WorkerRecord, now: Timestamp) -> Sql<Write> {
        let current = self.worker(&worker.worker)?.map(|worker| worker.revision);
        if current != worker.revision.checked_sub(1) {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO workers (worker, heartbeat_at, revision, body) VALUES (?1, ?2, ?3, ?4)",
            params![worker.worker.as_str(), worker.heartbeat_at.0, worker.revision, to_json(worker)?],
        )?;
        self.run("DELETE FROM workers WHERE heartbeat_at < ?1", [now.earlier(RECORD_TTL).0])?;
        Ok(Write::Committed)
    }

    pub(super) fn workers(&self) -> Sql<Vec<WorkerRecord>> {
        self.all("SELECT body FROM workers ORDER BY worker LIMIT ?1", [WORKERS_MAX], body)
    }
}
