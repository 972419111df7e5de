//! Who may touch the database, and when: one writer that commits in groups, a few readers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::ffi::SQLITE_IOERR_WRITE;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::error::StoreError;

use super::db::Db;
use super::schema;

/// Enough for every reader on a small machine; more would only wait for the same disk.
const READERS: usize = 4;

/// A group of this many writes takes well under the time a person notices.
const GROUP_MAX: usize = 256;

/// More than the store has: each is planned once for a connection.
const STATEMENTS_KEPT: usize = 128;

/// How long to wait for another process that holds the file.
const BUSY_FOR: Duration = Duration::from_secs(10);

/// How much log is gathered before it is moved into the database file: each page that changed often in
/// the meantime is then moved once.
const CHECKPOINT_PAGES: u32 = 4_000;

/// What a store has done, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Transactions that were committed; each is one sync of the log.
    pub commits: u64,
    /// Writes that they held.
    pub writes: u64,
    /// Rows that those inserted, changed or deleted.
    pub rows: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    writes: AtomicU64,
    rows: AtomicU64,
}

/// One write, waiting for its group.
pub(super) trait Job: Send {
    fn run(&mut self, db: &Db) -> rusqlite::Result<()>;
    fn done(self: Box<Self>, outcome: Result<(), Fault>);
}

/// Why a group was not committed.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    message: String,
    code: Option<ErrorCode>,
    /// Whether the write may have landed all the same.
    unknown: bool,
}

impl Fault {
    fn new(error: &rusqlite::Error, unknown: bool) -> Self {
        Self { message: error.to_string(), code: error.sqlite_error_code(), unknown }
    }

    fn is_busy(&self) -> bool {
        matches!(self.code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    fn explain(self, doing: &'static str) -> StoreError {
        match self {
            fault if fault.is_busy() => StoreError::Busy { doing },
            fault if fault.unknown => StoreError::Unknown { doing },
            fault => StoreError::broken(doing, fault.message),
        }
    }
}

struct Task<T, F> {
    doing: &'static str,
    write: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Db) -> rusqlite::Result<T> + Send> Job for Task<T, F> {
    fn run(&mut self, db: &Db) -> rusqlite::Result<()> {
        self.result = Some((self.write)(db)?);
        Ok(())
    }

    fn done(self: Box<Self>, outcome: Result<(), Fault>) {
        let Task { doing, result, reply, .. } = *self;
        let answer = match (outcome, result) {
            (Ok(()), Some(result)) => Ok(result),
            (Ok(()), None) => Err(StoreError::Unknown { doing }),
            (Err(fault), _) => Err(fault.explain(doing)),
        };
        // Whoever asked may have gone away; what was written stays written.
        let _ = reply.send(answer);
    }
}

pub(super) enum Front {
    /// One connection, used in place.
    Memory(Mutex<Db>),
    /// A writer thread and some readers.
    File { writer: Sender<Box<dyn Job>>, readers: Mutex<Vec<Db>>, path: PathBuf, counters: Arc<Counters> },
}

impl Front {
    pub(super) fn memory() -> Result<Self, StoreError> {
        let opening = "open a store in memory";
        let conn = schema::in_memory().map_err(|error| StoreError::broken(opening, error))?;
        tune(&conn).map_err(|error| StoreError::broken(opening, error))?;
        Ok(Self::Memory(Mutex::new(Db { conn })))
    }

    pub(super) fn file(path: &Path) -> Result<Self, StoreError> {
        let opening = "open the store's file";
        let mut db = connect(path).map_err(|error| StoreError::broken(opening, error))?;
        schema::create(&mut db.conn).map_err(|error| StoreError::broken(opening, error))?;
        let counters = Arc::new(Counters::default());
        let (writer, jobs) = channel();
        let counted = Arc::clone(&counters);
        std::thread::Builder::new()
            .name("countersign-writer".into())
            .spawn(move || write_groups(&db, &jobs, &counted))
            .map_err(|error| StoreError::broken(opening, error))?;
        Ok(Self::File { writer, readers: Mutex::new(Vec::new()), path: path.into(), counters })
    }

    /// Writes, and answers when it is durable.
    pub(super) async fn write<T, F>(&self, doing: &'static str, mut write: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Db) -> rusqlite::Result<T> + Send + 'static,
    {
        match self {
            Self::Memory(db) => {
                in_place(&lock(db), &mut write).map_err(|error| Fault::new(&error, false).explain(doing))
            }
            Self::File { writer, .. } => {
                let (reply, answer) = oneshot::channel();
                let task = Task { doing, write, result: None, reply };
                writer
                    .send(Box::new(task))
                    .map_err(|_| StoreError::broken(doing, "the store's writer has stopped"))?;
                answer.await.unwrap_or(Err(StoreError::Unknown { doing }))
            }
        }
    }

    /// Reads what is committed. A read takes microseconds, so it is done where it is asked for.
    #[expect(clippy::unused_async, reason = "a reader elsewhere would wait; callers should not know")]
    pub(super) async fn read<T>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Db) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let explain = |error: rusqlite::Error| Fault::new(&error, false).explain(doing);
        match self {
            Self::Memory(db) => read(&lock(db)).map_err(explain),
            Self::File { readers, path, .. } => {
                let idle = lock(readers).pop();
                let db = idle.map_or_else(|| connect(path), Ok).map_err(explain)?;
                let result = read(&db).map_err(explain);
                let mut readers = lock(readers);
                if readers.len() < READERS {
                    readers.push(db);
                }
                result
            }
        }
    }

    pub(super) async fn checkpoint(&self) -> Result<(), StoreError> {
        self.read("checkpoint", |db| db.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())))
            .await
    }

    pub(super) fn usage(&self) -> Usage {
        match self {
            Self::Memory(_) => Usage::default(),
            Self::File { counters, .. } => Usage {
                commits: counters.commits.load(Ordering::Relaxed),
                writes: counters.writes.load(Ordering::Relaxed),
                rows: counters.rows.load(Ordering::Relaxed),
            },
        }
    }
}

/// A panic elsewhere does not make the connection unusable: what it had not committed is not there.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(path: &Path) -> rusqlite::Result<Db> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(BUSY_FOR)?;
    tune(&conn)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(Db { conn })
}

/// What holds for every connection, whatever it is open on.
fn tune(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Without this the planner looks at what is bound, and plans a kept statement anew whenever that changes:
    // a quarter of the time of a store that waits.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn in_place<T>(db: &Db, write: &mut impl FnMut(&Db) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    db.transaction("BEGIN IMMEDIATE")?;
    let result = write(db);
    db.transaction(if result.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    result
}

/// The writer: whatever is waiting goes into one transaction.
fn write_groups(db: &Db, jobs: &Receiver<Box<dyn Job>>, counters: &Counters) {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        group.extend(jobs.try_iter().take(GROUP_MAX - 1));
        write_group(db, group, counters);
    }
}

fn write_group(db: &Db, mut group: Vec<Box<dyn Job>>, counters: &Counters) {
    let outcome = commit(db, &mut group);
    // One write that fails must not fail its neighbours: they are tried one by one. A file that is busy
    // fails nobody in particular, and each of them would wait for it anew.
    if matches!(&outcome, Err(fault) if !fault.unknown && !fault.is_busy()) && group.len() > 1 {
        for job in group {
            write_group(db, vec![job], counters);
        }
        return;
    }
    if outcome.is_ok() {
        counters.commits.fetch_add(1, Ordering::Relaxed);
        counters.writes.fetch_add(group.len() as u64, Ordering::Relaxed);
        counters.rows.store(db.conn.total_changes(), Ordering::Relaxed);
    }
    for job in group {
        job.done(outcome.clone());
    }
}

fn commit(db: &Db, group: &mut [Box<dyn Job>]) -> Result<(), Fault> {
    db.transaction("BEGIN IMMEDIATE").map_err(|error| Fault::new(&error, false))?;
    let ran = group.iter_mut().try_for_each(|job| job.run(db));
    let ended = ran
        .map_err(|error| Fault::new(&error, false))
        .and_then(|()| db.transaction("COMMIT").map_err(|error| Fault::new(&error, is_unknown(&error))));
    if ended.is_err() && !db.conn.is_autocommit() {
        // If even this fails, the next transaction cannot begin and says so.
        let _ = db.transaction("ROLLBACK");
    }
    ended
}

/// A full disk, a busy file or a page that could not be written is known to have left nothing behind: what
/// makes a transaction count is the last thing written. Any other fault, of the sync above all, is not.
fn is_unknown(error: &rusqlite::Error) -> bool {
    let unwritten = error.sqlite_error().is_some_and(|fault| fault.extended_code == SQLITE_IOERR_WRITE);
    let refused = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull)
    );
    !unwritten && !refused
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// How long the writer waits for the file here.
    const BRIEFLY: Duration = Duration::from_millis(200);

    fn idle_write(reply: oneshot::Sender<Result<(), StoreError>>) -> Box<dyn Job> {
        Box::new(Task { doing: "wait", write: |_: &Db| Ok(()), result: None, reply })
    }

    #[test]
    fn a_group_waits_for_a_busy_file_once_and_not_once_for_each_of_its_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let (db, other) = (connect(&path).unwrap(), connect(&path).unwrap());
        db.conn.busy_timeout(BRIEFLY).unwrap();
        other.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (replies, mut answers): (Vec<_>, Vec<_>) = (0..20).map(|_| oneshot::channel()).unzip();
        let begun = Instant::now();

        write_group(&db, replies.into_iter().map(idle_write).collect(), &Counters::default());

        assert!(begun.elapsed() < BRIEFLY * 10, "{:?}", begun.elapsed());
        assert!(
            answers.iter_mut().all(|answer| matches!(answer.try_recv(), Ok(Err(StoreError::Busy { .. }))))
        );
    }
}
