//! Database connections: one writer thread with group commit, and a pool of readers.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::ffi::{self, SQLITE_BUSY, SQLITE_IOERR_WRITE};
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::error::StoreError;

use super::db::Db;
use super::schema;

/// More readers would only wait for the same disk.
const READERS: usize = 4;

/// Limits the latency of a group commit to a few milliseconds.
const GROUP_MAX: usize = 256;

/// More than the number of distinct statements, so that each connection prepares a statement once.
const STATEMENT_CACHE_SIZE: usize = 128;

/// How long to wait for another process that holds the write lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// How many pages the write-ahead log collects before a checkpoint moves them into the database file. A page that
/// changed several times is then moved once.
const CHECKPOINT_PAGES: u32 = 4_000;

/// The number of pages with which SQLite copies the whole file.
const ALL_PAGES: i32 = -1;

/// The permission bits of the group and of other users.
const OTHERS: u32 = 0o077;

/// What SQLite appends to the name of a database for its write-ahead log and the index of that log. Both hold data of
/// the store.
const SIDE_FILES: [&str; 2] = ["-wal", "-shm"];

/// Counters of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Committed transactions; each one is one sync of the write-ahead log.
    pub commits: u64,
    /// Writes in those transactions.
    pub writes: u64,
    /// Rows that those writes inserted, updated or deleted.
    pub rows: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    writes: AtomicU64,
    rows: AtomicU64,
}

/// A write that waits for the writer thread.
pub(super) trait WriteJob: Send {
    fn run(&mut self, db: &Db) -> rusqlite::Result<()>;
    fn finish(self: Box<Self>, outcome: Result<(), CommitError>);
}

/// Why a transaction was not committed.
#[derive(Debug, Clone)]
pub(super) struct CommitError {
    message: String,
    code: Option<ErrorCode>,
    /// Whether the transaction may have been committed anyway.
    unknown: bool,
}

impl CommitError {
    fn new(error: &rusqlite::Error, unknown: bool) -> Self {
        Self { message: error.to_string(), code: error.sqlite_error_code(), unknown }
    }

    fn is_busy(&self) -> bool {
        matches!(self.code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    fn into_store_error(self, doing: &'static str) -> StoreError {
        match self {
            error if error.is_busy() => StoreError::Busy { doing },
            error if error.unknown => StoreError::Unknown { doing },
            error => StoreError::broken(doing, error.message),
        }
    }
}

struct Task<T, F> {
    doing: &'static str,
    write: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Db) -> rusqlite::Result<T> + Send> WriteJob for Task<T, F> {
    fn run(&mut self, db: &Db) -> rusqlite::Result<()> {
        self.result = Some((self.write)(db)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<(), CommitError>) {
        let Task { doing, result, reply, .. } = *self;
        let response = match (outcome, result) {
            (Ok(()), Some(result)) => Ok(result),
            (Ok(()), None) => Err(StoreError::Unknown { doing }),
            (Err(error), _) => Err(error.into_store_error(doing)),
        };
        // The caller may have dropped its future. The write stays committed.
        let _ = reply.send(response);
    }
}

pub(super) enum Connections {
    /// One connection, used on the calling thread. After a panic it stays usable: its transaction was not committed.
    Memory(Mutex<Db>),
    /// A writer thread and a pool of readers.
    File {
        writer: Sender<Box<dyn WriteJob>>,
        readers: Mutex<Vec<Db>>,
        path: PathBuf,
        counters: Arc<Counters>,
    },
}

impl Connections {
    pub(super) fn memory() -> Result<Self, StoreError> {
        let opening = "open an in-memory store";
        let conn = schema::in_memory().map_err(|error| StoreError::broken(opening, error))?;
        configure(&conn).map_err(|error| StoreError::broken(opening, error))?;
        Ok(Self::Memory(Mutex::new(Db { conn })))
    }

    pub(super) fn file(path: &Path) -> Result<Self, StoreError> {
        let opening = "open the store file";
        let mut db = connect(path).map_err(|error| StoreError::broken(opening, error))?;
        schema::create(&mut db.conn).map_err(|error| StoreError::broken(opening, error))?;
        // Only now, because the schema shows that the file is a store and not a file of another program.
        make_private(path).map_err(|error| StoreError::broken(opening, error))?;
        let counters = Arc::new(Counters::default());
        let (writer, jobs) = channel();
        let thread_counters = Arc::clone(&counters);
        std::thread::Builder::new()
            .name("countersign-writer".into())
            .spawn(move || write_groups(&db, &jobs, &thread_counters))
            .map_err(|error| StoreError::broken(opening, error))?;
        Ok(Self::File { writer, readers: Mutex::new(Vec::new()), path: path.into(), counters })
    }

    /// Runs `write` in a transaction and returns when the transaction is durable.
    pub(super) async fn write<T, F>(&self, doing: &'static str, mut write: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&Db) -> rusqlite::Result<T> + Send + 'static,
    {
        match self {
            Self::Memory(db) => run_transaction(&db.lock(), &mut write)
                .map_err(|error| CommitError::new(&error, false).into_store_error(doing)),
            Self::File { writer, .. } => {
                let (reply, response) = oneshot::channel();
                let task = Task { doing, write, result: None, reply };
                writer.send(Box::new(task)).map_err(|_| {
                    StoreError::broken(doing, "the writer thread has stopped; restart the process")
                })?;
                response.await.unwrap_or(Err(StoreError::Unknown { doing }))
            }
        }
    }

    /// Reads committed data. A read takes microseconds, so it runs on the calling thread.
    #[expect(
        clippy::unused_async,
        reason = "async so that a reader pool on other threads needs no change in callers"
    )]
    pub(super) async fn read<T>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Db) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let to_store_error = |error: rusqlite::Error| CommitError::new(&error, false).into_store_error(doing);
        match self {
            Self::Memory(db) => read(&db.lock()).map_err(to_store_error),
            Self::File { readers, path, .. } => {
                let idle = readers.lock().pop();
                let db = idle.map_or_else(|| connect(path), Ok).map_err(to_store_error)?;
                let result = read(&db).map_err(to_store_error);
                let mut readers = readers.lock();
                if readers.len() < READERS {
                    readers.push(db);
                }
                result
            }
        }
    }

    /// Copies all pages in one read transaction, so that writes of other processes do not restart the copy.
    pub(super) async fn back_up(&self, path: &Path) -> Result<(), StoreError> {
        self.read("back up the store", |db| {
            let mut copy = Connection::open(path)?;
            match Backup::new(&db.conn, &mut copy)?.step(ALL_PAGES)? {
                StepResult::Done => Ok(()),
                _ => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(SQLITE_BUSY), None)),
            }
        })
        .await
    }

    pub(super) async fn checkpoint(&self) -> Result<(), StoreError> {
        self.read("checkpoint the store file", |db| {
            db.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        })
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

/// Creates the file so that only its owner can read it; SQLite gives the files next to it the same mode. SQLite reports
/// every other error when it opens the file.
fn create_private(path: &Path) {
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// A store file that other users can read.
#[derive(Debug, thiserror::Error)]
#[error("other users can read {path}, and its mode cannot be changed; as its owner, run: chmod 600 '{path}'")]
struct NotPrivate {
    path: String,
    #[source]
    source: io::Error,
}

/// Removes the access of other users to an existing store. An earlier version of the program, a copy or an administrator
/// may have left a mode such as 0644.
fn make_private(path: &Path) -> Result<(), NotPrivate> {
    // SQLite keeps the other files next to the file that a symbolic link points to.
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    let side_files = SIDE_FILES.into_iter().map(|suffix| {
        let mut name = path.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    });
    for file in [path.clone()].into_iter().chain(side_files) {
        let made_private = remove_others(&file);
        if made_private.map_err(|source| NotPrivate { path: file.display().to_string(), source })? {
            tracing::warn!(
                event = "store_made_private",
                store = %file.display(),
                "store file was accessible to other users; its mode was changed"
            );
        }
    }
    Ok(())
}

/// Whether the mode of the file had to be changed. A missing file has nothing to read.
fn remove_others(file: &Path) -> io::Result<bool> {
    let changed = fs::metadata(file).and_then(|found| {
        let mode = found.permissions().mode();
        let is_open = found.is_file() && mode & OTHERS != 0;
        if is_open {
            fs::set_permissions(file, Permissions::from_mode(mode & !OTHERS))?;
        }
        Ok(is_open)
    });
    match changed {
        // The last connection of another process removes the write-ahead log.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        changed => changed,
    }
}

fn connect(path: &Path) -> rusqlite::Result<Db> {
    create_private(path);
    let conn = Connection::open(path)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    configure(&conn)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    Ok(Db { conn })
}

/// Settings of every connection, in memory or on a file.
fn configure(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    // QPSG stops SQLite from re-preparing a cached statement when its bound values change, which took a quarter of
    // the time of an idle store.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn run_transaction<T>(db: &Db, write: &mut impl FnMut(&Db) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    db.transaction("BEGIN IMMEDIATE")?;
    let result = schema::check(&db.conn).and_then(|()| write(db));
    db.transaction(if result.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    result
}

/// The writer thread: commits all waiting writes in one transaction.
fn write_groups(db: &Db, jobs: &Receiver<Box<dyn WriteJob>>, counters: &Counters) {
    while let Ok(first) = jobs.recv() {
        let mut group = vec![first];
        group.extend(jobs.try_iter().take(GROUP_MAX - 1));
        write_group(db, group, counters);
    }
}

fn write_group(db: &Db, mut group: Vec<Box<dyn WriteJob>>, counters: &Counters) {
    let outcome = commit(db, &mut group);
    // One failing write must not fail the others in its group, so they are retried one by one. A busy file fails
    // all of them, and each retry would wait for the lock again, so a busy group is not retried.
    if matches!(&outcome, Err(error) if !error.unknown && !error.is_busy()) && group.len() > 1 {
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
        job.finish(outcome.clone());
    }
}

fn commit(db: &Db, group: &mut [Box<dyn WriteJob>]) -> Result<(), CommitError> {
    db.transaction("BEGIN IMMEDIATE").map_err(|error| CommitError::new(&error, false))?;
    let written = schema::check(&db.conn).and_then(|()| group.iter_mut().try_for_each(|job| job.run(db)));
    let committed = written.map_err(|error| CommitError::new(&error, false)).and_then(|()| {
        db.transaction("COMMIT").map_err(|error| CommitError::new(&error, is_unknown(&error)))
    });
    if committed.is_err() && !db.conn.is_autocommit() {
        // If the rollback fails too, the next BEGIN fails and reports it.
        let _ = db.transaction("ROLLBACK");
    }
    committed
}

/// Whether a failed COMMIT may have been applied. A full disk, a busy file or a page that could not be written
/// leaves the transaction uncommitted, because the commit record is written last. After any other error, such as a
/// failed sync, the result is unknown.
fn is_unknown(error: &rusqlite::Error) -> bool {
    let unwritten = error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_WRITE);
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

    const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn opening_makes_an_existing_store_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let beside = SIDE_FILES.map(|suffix| dir.path().join(format!("ledger.db{suffix}")));
        // The connection keeps the write-ahead log.
        let _open = connect(&path).unwrap();
        Connections::file(&path).unwrap();
        for file in beside.iter().chain([&path]) {
            fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        }
        let (log, _guard) = testkit::CapturedLog::capture(tracing::Level::WARN);

        Connections::file(&path).unwrap();

        for file in beside.iter().chain([&path]) {
            assert_eq!(mode(file), 0o600, "{}", file.display());
        }
        let events = || log.fields().into_iter().filter(|line| line["event"] == "store_made_private").count();
        assert_eq!(events(), 3, "{}", log.text());
        Connections::file(&path).unwrap();
        assert_eq!(events(), 3, "a private store is left unchanged: {}", log.text());
    }

    #[test]
    fn file_of_another_program_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.txt");
        fs::write(&path, "not a database, and longer than the header of one ".repeat(10)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(Connections::file(&path).is_err());
        assert_eq!(mode(&path), 0o644);
    }

    /// The kernel lets no user change the mode of this file.
    #[cfg(target_os = "linux")]
    #[test]
    fn store_that_stays_readable_is_refused() {
        let error = make_private(Path::new("/proc/self/status")).unwrap_err().to_string();
        assert!(error.contains("chmod 600 '/proc/") && error.contains("other users can read"), "{error}");
    }

    fn no_op_write(reply: oneshot::Sender<Result<(), StoreError>>) -> Box<dyn WriteJob> {
        Box::new(Task { doing: "wait", write: |_: &Db| Ok(()), result: None, reply })
    }

    #[test]
    fn busy_file_delays_a_group_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let (db, other) = (connect(&path).unwrap(), connect(&path).unwrap());
        db.conn.busy_timeout(LOCK_TIMEOUT).unwrap();
        other.conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (replies, mut responses): (Vec<_>, Vec<_>) = (0..20).map(|_| oneshot::channel()).unzip();
        let started = Instant::now();

        write_group(&db, replies.into_iter().map(no_op_write).collect(), &Counters::default());

        assert!(started.elapsed() < LOCK_TIMEOUT * 10, "{:?}", started.elapsed());
        assert!(
            responses
                .iter_mut()
                .all(|response| matches!(response.try_recv(), Ok(Err(StoreError::Busy { .. }))))
        );
    }
}
