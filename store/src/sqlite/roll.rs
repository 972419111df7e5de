//! The statements about the roll of workers.

use domain::roll::KEPT_FOR;
use domain::{Enrolled, WorkerId};
use rusqlite::params;

use crate::ledger::Write;

use super::db::{Db, Sql, body, text};

impl Db {
    pub(super) fn enrolled(&self, worker: &WorkerId) -> Sql<Option<Enrolled>> {
        self.get("SELECT body FROM roll WHERE worker = ?1", [worker.as_str()], body)
    }

    pub(super) fn enroll(&self, worker: &Enrolled) -> Sql<Write> {
        let stands = self.enrolled(&worker.worker)?.map(|stands| stands.revision);
        if stands != worker.revision.checked_sub(1) {
            return Ok(Write::Superseded);
        }
        self.run(
            "INSERT OR REPLACE INTO roll (worker, seen, revision, body) VALUES (?1, ?2, ?3, ?4)",
            params![worker.worker.as_str(), worker.seen.0, worker.revision, text(worker)?],
        )?;
        // Whoever signs takes those off the roll that nobody asks for any more.
        self.run("DELETE FROM roll WHERE seen < ?1", [worker.seen.earlier(KEPT_FOR).0])?;
        Ok(Write::Committed)
    }

    pub(super) fn roll(&self) -> Sql<Vec<Enrolled>> {
        self.all("SELECT body FROM roll ORDER BY worker", [], body)
    }
}
