//! A full disk and a killed process: acknowledged commits are stored, and others are stored completely or not at
//! all.
//!
//! Both tests run themselves again in a child process with a working directory.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_store::{Admission, Ledger, SqliteOptions, SqliteStore, StoreError, Write};
use domain::RunRecord;
use domain::chain::verify;
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use support::{admission_with, error_chain};

/// Passes the working directory to the child process.
const WORK_DIR: &str = "COUNTERSIGN_TEST_WORK_DIR";

/// Enough for the schema and a few runs.
const ROOM_BYTES: u64 = 1024 * 1024;

/// The number of acknowledged commits before the process is killed.
const ACKNOWLEDGED: usize = 20;

#[test]
fn disk_full_on_embedded_store() {
    match work_dir() {
        Some(dir) => block_on(fill(&dir, || limit_files(Some(ROOM_BYTES)), || limit_files(None))),
        // With SIGXFSZ ignored, a write beyond the limit returns an error.
        None => run_in_child("disk_full_on_embedded_store", &["sh", "-c", r#"trap '' XFSZ; exec "$0" "$@""#]),
    }
}

#[test]
fn acknowledged_commits_survive_sigkill() {
    if let Some(dir) = work_dir() {
        return block_on(acknowledge_until_killed(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = kill_after(dir.path(), ACKNOWLEDGED);
    assert!(acknowledged >= ACKNOWLEDGED);
    block_on(assert_stored(&open(dir.path()), acknowledged));
}

/// Writes until the disk is full, checks the stored data, and continues when there is room again.
async fn fill(dir: &Path, take_room: impl FnOnce(), make_room: impl FnOnce()) {
    let store = open(dir);
    take_room();
    let (committed, error) = write_until_it_fails(&store).await;
    assert!(committed > 0);
    assert_names_the_cause(&error);
    assert_stored(&store, committed).await;
    // Asking again changes nothing while there is no room.
    assert!(store.admit(admission(committed)).await.is_err());
    assert_stored(&store, committed).await;

    make_room();

    for n in committed..committed + 5 {
        assert_eq!(store.admit(admission(n)).await.unwrap(), Write::Committed);
    }
    drop(store);
    assert_stored(&open(dir), committed + 5).await;
    assert_intact(dir);
}

async fn write_until_it_fails(store: &SqliteStore) -> (usize, StoreError) {
    let mut committed = 0;
    loop {
        match store.admit(admission(committed)).await {
            Ok(write) => assert_eq!(write, Write::Committed),
            Err(error) => return (committed, error),
        }
        committed += 1;
    }
}

fn assert_names_the_cause(error: &StoreError) {
    let text = error_chain(error);
    assert!(matches!(error, StoreError::Broken { .. }), "{text}");
    assert!(text.contains("commit a decision") && text.contains("disk"), "{text}");
}

/// The first `count` runs are stored completely. There is at most one more, also complete.
async fn assert_stored(store: &SqliteStore, count: usize) {
    for n in 0..=count {
        let Admission { decision, input, .. } = admission(n);
        let loaded = store.load(&decision.record.key).await.unwrap();
        assert!(loaded.is_some() || n == count, "run {n} of {count} is lost");
        let Some(record) = loaded else { continue };
        // Each call creates an operation id of its own.
        let expected = RunRecord { op: record.op.clone(), ..decision.record };
        assert_eq!(record, expected);
        assert_eq!(store.input(&record.key).await.unwrap(), Some(input));
        let chain = store.events(&record.key, 0, 10).await.unwrap();
        verify(&record.key, &chain, record.events, &record.head).unwrap();
    }
    let next = admission(count + 1).decision.record.key;
    assert_eq!(store.load(&next).await.unwrap(), None);
}

fn assert_intact(dir: &Path) {
    let conn = Connection::open(dir.join("ledger.db")).unwrap();
    let verdict: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// The run with this number. Its input is almost as large as an inline payload may be, to fill the disk quickly.
fn admission(n: usize) -> Admission {
    admission_with(&format!("request-{n}"), json!("x".repeat(60_000)))
}

fn open(dir: &Path) -> SqliteStore {
    SqliteStore::open(dir.join("ledger.db"), SqliteOptions::default()).unwrap()
}

async fn acknowledge_until_killed(dir: &Path) {
    let store = open(dir);
    for n in 0.. {
        store.admit(admission(n)).await.unwrap();
        println!("acknowledged {}", n + 1);
    }
}

/// Kills the child process after `count` acknowledged commits. Returns the number of acknowledged commits.
fn kill_after(dir: &Path, count: usize) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "acknowledged_commits_survive_sigkill", "--nocapture"])
        .env(WORK_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut acknowledged = 0;
    for line in lines {
        let parsed = line.rsplit_once("acknowledged ").and_then(|(_, count)| count.parse().ok());
        acknowledged = parsed.unwrap_or(acknowledged);
        if acknowledged == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    acknowledged
}

/// Limits the file size to `bytes`, or removes the limit.
fn limit_files(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

fn work_dir() -> Option<PathBuf> {
    std::env::var_os(WORK_DIR).map(PathBuf::from)
}

/// Runs this test in a child process through `launcher`.
fn run_in_child(test: &str, launcher: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(launcher[0])
        .args(&launcher[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(WORK_DIR, dir.path())
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&printed));
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
}
