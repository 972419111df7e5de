//! The statements about the roll of workers.

use domain::worker_registry::KEPT_FOR;
use domain::{Timestamp, WorkerId, WorkerRecord};
use rusqlite::params;

use crate::ledger::Write;
use crate::worker_registry::WORKERS_MAX;

use super::db::{Db, Sql, body, text};

impl Db {
    pub(super) fn registered_worker(&self, worker: &WorkerId) -> Sql<Option<WorkerRecord>> {
        self.get("SELECT body FROM workers WHERE worker = ?1", [worker.as_str()], body)
    }

    /// Whoever signs takes those off the roll that nobody asks for any more.
    pub(super) fn put_worker(&self, worker: &WorkerRecord, now: Timestamp) -> Sql<Write> {
        let stands = self.registered_worker(&worker.worker)?.map(|stands| stands.revision);
        if stands != worker.revision.checked_sub(1) {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO workers (worker, seen, revision, body) VALUES (?1, ?2, ?3, ?4)",
            params![worker.worker.as_str(), worker.seen.0, worker.revision, text(worker)?],
        )?;
        self.run("DELETE FROM workers WHERE seen < ?1", [now.earlier(KEPT_FOR).0])?;
        Ok(Write::Committed)
    }

    pub(super) fn roll(&self) -> Sql<Vec<WorkerRecord>> {
        self.all("SELECT body FROM workers ORDER BY worker LIMIT ?1", [WORKERS_MAX], body)
    }
}
