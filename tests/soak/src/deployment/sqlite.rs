//! One SQLite file that all processes share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use domain::TenantId;
use evidence::PublicKey;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use store::{SqliteOptions, SqliteStore};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::external_systems::ExternalSystems;
use crate::flow::Endpoints;

use super::{Deployment, LoadProfile, SETTLE_TIMEOUT, StoreFault};

/// A process that writes beyond its file size limit gets SIGXFSZ, which ends it. Ignored, the write fails instead, as on
/// a full disk. The shell passes the disposition on to the program.
const IGNORE_SIGXFSZ: &str = "trap '' XFSZ; exec \"$@\"";

/// Smaller than the write-ahead log and the database, so that every write that needs space fails.
const FULL_BYTES: u64 = 16 * 1024;

/// How long a fault waits for the write lock.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

const LEASE: &str = "3s";
const RENEW_EVERY: &str = "1s";

pub(crate) struct SqliteDeployment {
    directory: Mutex<Option<TempDir>>,
    path: PathBuf,
    file: PathBuf,
    binary: PathBuf,
    config: PathBuf,
    store: SqliteStore,
    external_systems: ExternalSystems,
    tenant: TenantId,
}

impl SqliteDeployment {
    pub(crate) async fn open() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("prepare the directory: {error}");
        let directory = tempfile::Builder::new().prefix("countersign-soak-").tempdir().map_err(failed)?;
        let external_systems = ExternalSystems::start().await.map_err(failed)?;
        let (file, config) = (directory.path().join("soak.db"), directory.path().join("countersign.yaml"));
        std::fs::write(&config, external_systems.config()).map_err(failed)?;
        let store = SqliteStore::open(&file, SqliteOptions::default()).map_err(|error| error.to_string())?;
        Ok(Self {
            path: directory.path().to_owned(),
            directory: Mutex::new(Some(directory)),
            binary: countersign_crash::binary::countersign()?,
            file,
            config,
            store,
            external_systems,
            tenant: "default".parse().map_err(|error| format!("{error}"))?,
        })
    }

    fn process(&self, more: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", IGNORE_SIGXFSZ, "sh"]).arg(&self.binary).arg("--store").arg(&self.file);
        command
            .args(more)
            .arg("--config")
            .arg(&self.config)
            .args(["--allow-host", &self.external_systems.http_address()]);
        command.envs(ExternalSystems::credentials()).env("RUST_LOG", "warn");
        command
    }
}

impl Deployment for SqliteDeployment {
    type Store = SqliteStore;

    fn profile(&self) -> LoadProfile {
        LoadProfile {
            workers: 3,
            servers: 2,
            starters: 16,
            open_max: 400,
            fault_every: Duration::from_millis(1_500),
            settle_timeout: SETTLE_TIMEOUT,
            suspend_time: Duration::from_millis(4_500),
        }
    }

    fn external_systems(&self) -> &ExternalSystems {
        &self.external_systems
    }

    fn endpoints(&self) -> Endpoints {
        Endpoints { http: Some(self.external_systems.http_url()) }
    }

    fn tenant(&self) -> TenantId {
        self.tenant.clone()
    }

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    fn public_key(&self) -> Result<PublicKey, String> {
        let path = self.file.with_file_name("soak.db.pub");
        let text = std::fs::read_to_string(path).map_err(|error| format!("read the public key: {error}"))?;
        PublicKey::from_text(&text).map_err(|error| error.to_string())
    }

    fn worker(&self) -> Command {
        let mut command = self.process(&["worker"]);
        command.args(["--lease", LEASE, "--renew-every", RENEW_EVERY, "--drain", "2s"]);
        command
    }

    fn server(&self, port: u16) -> Command {
        self.process(&["serve", "--listen", &format!("127.0.0.1:{port}")])
    }

    fn cli(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--store").arg(&self.file);
        command
    }

    fn program(&self) -> Command {
        Command::new(&self.binary)
    }

    fn supports(&self, _: StoreFault) -> bool {
        true
    }

    async fn inject_fault(
        &self,
        fault: StoreFault,
        time: Duration,
        processes: Vec<Pid>,
    ) -> Result<(), String> {
        match fault {
            // Writers wait for the lock, at most as long as SQLite's busy timeout.
            StoreFault::Slow => self.hold_lock(time / 4).await,
            StoreFault::Unavailable => self.hold_lock(time).await,
            StoreFault::Full => {
                limit_file_size(&processes, Some(FULL_BYTES));
                sleep(time).await;
                limit_file_size(&processes, None);
                Ok(())
            }
        }
    }

    async fn sweep(&self) {}

    fn directory(&self) -> PathBuf {
        self.path.clone()
    }

    fn keep(&self) -> String {
        let kept = self.directory.lock().take().map(TempDir::keep);
        kept.map_or_else(String::new, |path| path.display().to_string())
    }
}

impl SqliteDeployment {
    async fn hold_lock(&self, time: Duration) -> Result<(), String> {
        let file = self.file.clone();
        tokio::task::spawn_blocking(move || hold_lock(&file, time, LOCK_WAIT_MAX))
            .await
            .map_err(|error| format!("lock the store: {error}"))?
            .map_err(|error| format!("lock the store: {error}"))
    }
}

/// Holds the write lock of the file, as another process would. A suspended worker may hold the lock already; the store
/// is unavailable then, which is the requested fault.
fn hold_lock(file: &Path, time: Duration, wait: Duration) -> rusqlite::Result<()> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(wait)?;
    match connection.execute_batch("BEGIN IMMEDIATE") {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => return Ok(()),
        result => result?,
    }
    std::thread::sleep(time);
    connection.execute_batch("ROLLBACK")
}

/// Sets the soft limit, which an ordinary user may raise again. A process may have ended.
fn limit_file_size(processes: &[Pid], bytes: Option<u64>) {
    for process in processes {
        let _ = prlimit(Some(*process), Resource::Fsize, Rlimit { current: bytes, maximum: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_of_another_process_is_no_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("soak.db");
        let other = Connection::open(&file).expect("a database");
        other.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
        let held = hold_lock(&file, Duration::from_millis(1), Duration::from_millis(10));
        assert_eq!(held, Ok(()));
        other.execute_batch("ROLLBACK").expect("the transaction is open");
        assert_eq!(hold_lock(&file, Duration::from_millis(1), Duration::from_millis(10)), Ok(()));
    }
}
