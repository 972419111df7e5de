//! The statements about the roll of workers.

use domain::roll::KEPT_FOR;
use domain::{Enrolled, Timestamp, WorkerId};
use rusqlite::params;

use crate::ledger::Write;
use crate::roll::ROLL_MAX;

use super::db::{Db, Sql, body, text};

impl Db {
    pub(super) fn enrolled(&self, worker: &WorkerId) -> Sql<Option<Enrolled>> {
        self.get("SELECT body FROM roll WHERE worker = ?1", [worker.as_str()], body)
    }

    /// Whoever signs takes those off the roll that nobody asks for any more.
    pub(super) fn enroll(&self, worker: &Enrolled, now: Timestamp) -> Sql<Write> {
        let stands = self.enrolled(&worker.worker)?.map(|stands| stands.revision);
        if stands != worker.revision.checked_sub(1) {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO roll (worker, seen, revision, body) VALUES (?1, ?2, ?3, ?4)",
            params![worker.worker.as_str(), worker.seen.0, worker.revision, text(worker)?],
        )?;
        self.run("DELETE FROM roll WHERE seen < ?1", [now.earlier(KEPT_FOR).0])?;
        Ok(Write::Committed)
    }

    pub(super) fn roll(&self) -> Sql<Vec<Enrolled>> {
        self.all("SELECT body FROM roll ORDER BY worker LIMIT ?1", [ROLL_MAX], body)
    }
}
