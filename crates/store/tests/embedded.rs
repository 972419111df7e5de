//! Specifics of the embedded store: files that survive restarts and are shared by processes, group commit, and
//! damaged files.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_store::{
    Admission, BlobKind, Blobs, Clock as _, Inbox as _, Ledger, Queue, SqliteOptions, SqliteStore,
    StoreError, SystemClock, WorkerRegistry as _, Write,
};
use domain::command::{Cancel, Command};
use domain::worker_registry::RECORD_TTL;
use domain::{
    AppliedWorkflow, BlobRef, Cause, Decision, Digest, Draft, Initiator, Job, Millis, Outgoing, QueueName,
    RunId, RunKey, RunRecord, Timestamp, WorkerRecord, WorkerReport,
};
use rusqlite::Connection;
use serde_json::json;
use support::{admission_with, error_chain, plan};
use tempfile::TempDir;
use testkit::acme as tenant;
use testkit::ledger::{self, NOON};

const HIDDEN: Millis = Millis::secs(60);

/// Longer than any wait that should succeed at once.
const LONG_WAIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn data_survives_a_restart() {
    let env = StoreDir::new();
    let store = env.open();
    let admission = admission("request");
    let record = admission.decision.record.clone();
    store.admit(admission.clone()).await.unwrap();
    store.put_plan(&record.key.tenant, &plan()).await.unwrap();
    let blob = store.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    drop(store);

    let store = env.open();

    assert_eq!(store.load(&record.key).await.unwrap(), Some(record.clone()));
    assert_eq!(store.input(&record.key).await.unwrap(), Some(admission.input));
    assert_eq!(store.plan(&record.key.tenant, &record.plan).await.unwrap(), Some(plan()));
    assert_eq!(store.blob(BlobKind::Payloads, &tenant(), &blob).await.unwrap(), Some(b"large".to_vec()));
    let received = store.receive(QueueName::Steps, 10, HIDDEN, Duration::ZERO).await.unwrap();
    assert_eq!(received.into_iter().map(|delivery| delivery.run).collect::<Vec<_>>(), [record.key]);
}

#[tokio::test]
async fn heartbeat_deletes_expired_workers() {
    let env = StoreDir::new();
    let store = env.open();
    let heartbeat =
        |name: &str, at| WorkerRecord::new(name.parse().unwrap(), WorkerReport::Working { in_flight: 0 }, at);
    let now = SystemClock.now();
    // A worker with a wrong clock deletes no other worker.
    let (old, ahead) = (
        heartbeat("old", now.earlier(Millis(RECORD_TTL.0 + 1_000))),
        heartbeat("ahead", now + RECORD_TTL + RECORD_TTL),
    );
    let recent = heartbeat("young", now.earlier(Millis(RECORD_TTL.0 / 2)));
    for worker in [&old, &recent, &ahead] {
        assert_eq!(store.put_worker(worker.clone()).await.unwrap(), Write::Committed);
    }
    assert_eq!(store.workers().await.unwrap(), [ahead, recent]);
}

#[tokio::test]
async fn outdated_handle_neither_extends_nor_deletes() {
    let env = StoreDir::new();
    let store = env.open();
    store.admit(admission("request")).await.unwrap();
    let one = async |visibility| {
        store.receive(QueueName::Steps, 1, visibility, LONG_WAIT).await.unwrap().pop().unwrap().handle
    };
    let old = one(Millis(1)).await;
    let new = one(HIDDEN).await;

    assert!(!store.extend(&old, Millis(0)).await.unwrap());
    assert!(!store.delete(&old).await.unwrap());

    assert!(store.extend(&new, HIDDEN).await.unwrap());
    assert!(store.delete(&new).await.unwrap());
    assert!(!store.delete(&new).await.unwrap());
}

#[tokio::test]
async fn two_processes_see_each_others_commits() {
    let env = StoreDir::new();
    let (one, other) = (env.open(), env.open());
    let admission = admission("request");
    let record = admission.decision.record.clone();
    one.admit(admission.clone()).await.unwrap();

    assert_eq!(other.load(&record.key).await.unwrap(), Some(record.clone()));
    assert_eq!(other.admit(admission).await.unwrap(), Write::Superseded);

    let decision = decided(&record, Cancel { reason: "enough".to_owned() });
    assert_eq!(other.commit(decision.clone()).await.unwrap(), Write::Committed);
    assert_eq!(one.load(&record.key).await.unwrap(), Some(decision.record.clone()));
    assert_eq!(one.commit(decision).await.unwrap(), Write::Superseded);
}

/// Polling once a second would take five seconds on average.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_wakes_a_receiver_in_another_process() {
    let env = StoreDir::new();
    let (sender, receiver) = (env.open(), Arc::new(env.open()));
    let mut elapsed = Duration::ZERO;
    for n in 0..10 {
        let waiting = tokio::spawn({
            let receiver = Arc::clone(&receiver);
            async move { receiver.receive(QueueName::Steps, 1, HIDDEN, LONG_WAIT).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let started = Instant::now();
        sender.send(&advance(&format!("run-{n}"))).await.unwrap();
        assert_eq!(waiting.await.unwrap().len(), 1);
        elapsed += started.elapsed();
    }
    assert!(elapsed < Duration::from_millis(2_500), "{elapsed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn waiting_writes_are_committed_as_a_group() {
    let env = StoreDir::new();
    let store = Arc::new(env.open());
    let writes = send_while_locked(&env, &store, 100).await;
    assert!(writes.into_iter().all(|written| written.is_ok()));

    let usage = store.usage();

    assert_eq!(usage.writes, 100);
    assert!(usage.commits < 10, "{usage:?}");
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 100);
}

/// Sends `count` messages while another process holds the write lock: the writer waits with the first, and the
/// others form a group.
async fn send_while_locked(
    env: &StoreDir,
    store: &Arc<SqliteStore>,
    count: usize,
) -> Vec<Result<(), StoreError>> {
    let send = |n| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.send(&advance(&format!("run-{n}"))).await })
    };
    let lock = env.lock();
    let mut sends = vec![send(0)];
    tokio::time::sleep(Duration::from_millis(50)).await;
    sends.extend((1..count).map(send));
    tokio::time::sleep(Duration::from_millis(250)).await;
    drop(lock);
    let mut results = Vec::new();
    for send in sends {
        results.push(send.await.unwrap());
    }
    results
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn failed_write_does_not_fail_its_group() {
    let env = StoreDir::new();
    let store = Arc::new(env.open());
    // The first event twice violates a unique key in the middle of the group.
    let mut broken = admission("request");
    broken.decision.events.push(broken.decision.events[0].clone());
    let run = broken.decision.record.key.clone();
    let failing = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            store.admit(broken).await
        }
    });

    let writes = send_while_locked(&env, &store, 20).await;

    assert!(writes.into_iter().all(|written| written.is_ok()));
    assert!(matches!(failing.await.unwrap(), Err(StoreError::Broken { .. })));
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 20);
    assert_eq!(store.load(&run).await.unwrap(), None);
    assert_eq!(store.admit(admission("request")).await.unwrap(), Write::Committed);
}

#[tokio::test]
async fn failed_write_in_memory_stores_nothing() {
    let store = SqliteStore::memory(SqliteOptions::default()).unwrap();
    let mut broken = admission("request");
    broken.decision.events.push(broken.decision.events[0].clone());
    let run = broken.decision.record.key.clone();

    assert!(matches!(store.admit(broken).await, Err(StoreError::Broken { .. })));

    assert_eq!(store.load(&run).await.unwrap(), None);
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 0);
    assert_eq!(store.admit(admission("request")).await.unwrap(), Write::Committed);
}

#[test]
fn another_schema_version_is_refused() {
    let env = StoreDir::new();
    drop(env.open());
    let conn = Connection::open(env.path()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();

    let error = error_chain(&env.try_open().err().unwrap());

    assert!(error.contains("open the store file"), "{error}");
    assert!(error.contains("schema version 99") && error.contains("start with a new file"), "{error}");
}

/// A newer program has changed the file of a running one.
#[tokio::test]
async fn write_to_another_schema_version_is_refused() {
    let env = StoreDir::new();
    let store = env.open();
    store.send(&advance("before")).await.unwrap();
    Connection::open(env.path()).unwrap().pragma_update(None, "user_version", 1_000).unwrap();

    let error = store.send(&advance("after")).await.unwrap_err();

    assert!(error_chain(&error).contains("schema version 1000"), "{}", error_chain(&error));
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 1);
}

#[test]
fn file_that_is_not_a_database_is_rejected_unchanged() {
    let env = StoreDir::new();
    let text = "This is not a database. ".repeat(100);
    std::fs::write(env.path(), &text).unwrap();

    let error = error_chain(&env.try_open().err().unwrap());

    assert!(error.contains("not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(env.path()).unwrap(), text);
}

#[test]
fn path_that_cannot_be_created_is_rejected() {
    let env = StoreDir::new();
    let missing_path = env.path().join("below/a/file/that/is/not/there");
    let error = error_chain(&SqliteStore::open(missing_path, SqliteOptions::default()).err().unwrap());
    assert!(error.contains("unable to open"), "{error}");
}

#[tokio::test]
async fn altered_blob_is_not_returned() {
    let env = StoreDir::new();
    let store = env.open();
    let blob = store.put_blob(BlobKind::Payloads, &tenant(), b"original".to_vec()).await.unwrap();
    let conn = Connection::open(env.path()).unwrap();
    conn.execute("UPDATE blobs SET body = ?1", [b"altered".as_slice()]).unwrap();

    assert!(matches!(store.blob(BlobKind::Payloads, &tenant(), &blob).await, Err(StoreError::Broken { .. })));
    let other = BlobRef { sha256: Digest::of_bytes(b"another"), bytes: 7 };
    assert_eq!(store.blob(BlobKind::Payloads, &tenant(), &other).await.unwrap(), None);
}

#[tokio::test]
async fn undecodable_schedule_does_not_block_the_others() {
    let env = StoreDir::new();
    let store = env.open();
    for workflow in ["hourly", "nightly"] {
        let applied = AppliedWorkflow {
            tenant: tenant(),
            workflow: workflow.parse().unwrap(),
            version: 1,
            plan: Digest::ZERO,
            triggered_by: None,
            at: Timestamp(0),
            by: Initiator::new(Cause::User, "ada"),
        };
        assert_eq!(store.apply(applied, Some(Timestamp(0))).await.unwrap(), Write::Committed);
    }
    let conn = Connection::open(env.path()).unwrap();
    conn.execute("UPDATE workflows SET body = '{' WHERE workflow = 'hourly'", []).unwrap();

    let due = store.due_schedules(Timestamp(1), 10).await.unwrap();
    let due: Vec<_> = due.iter().map(|due| due.applied.workflow.as_str()).collect();
    assert_eq!(due, ["nightly"]);
}

/// A message of another version of the program, and a damaged one.
#[tokio::test]
async fn unreadable_message_does_not_block_its_queue() {
    let env = StoreDir::new();
    let store = env.open();
    let other = Connection::open(env.path()).unwrap();
    for (tenant, job) in [("'acme'", "'dance'"), ("x'00ff'", "'advance'")] {
        let row = format!(
            "INSERT INTO messages (queue, visible_at, tenant, run, job) VALUES ('steps', 1, {tenant}, 'r', {job})"
        );
        other.execute_batch(&row).unwrap();
    }
    store.send(&advance("good")).await.unwrap();

    let received = store.receive(QueueName::Steps, 10, HIDDEN, Duration::ZERO).await.unwrap();

    assert_eq!(received.into_iter().map(|delivery| delivery.run).collect::<Vec<_>>(), [run_key("good")]);
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 1);
    let dead = store.dead_letters(10).await.unwrap();
    assert_eq!(
        dead.iter().map(|dead| (dead.run(), dead.queue)).collect::<Vec<_>>(),
        [(None, QueueName::Steps); 2]
    );
    assert_eq!(store.redrive(10).await.unwrap(), 0);
    assert_eq!(store.dead_letters(10).await.unwrap(), dead);
}

#[tokio::test]
async fn checkpoint_truncates_the_log_and_loses_nothing() {
    let env = StoreDir::new();
    let store = env.open();
    let admission = admission("request");
    let record = admission.decision.record.clone();
    store.admit(admission).await.unwrap();
    assert!(env.log_bytes() > 0);

    store.checkpoint().await.unwrap();

    assert_eq!(env.log_bytes(), 0);
    assert_eq!(store.load(&record.key).await.unwrap(), Some(record));
    assert_eq!(store.plan(&tenant(), &Digest::ZERO).await.unwrap(), None);
}

/// A directory with a store file.
struct StoreDir {
    dir: TempDir,
}

impl StoreDir {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }

    /// Opens the store like another process.
    fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.path(), SqliteOptions::default())
    }

    /// Holds the write lock until it is dropped.
    fn lock(&self) -> Connection {
        let conn = Connection::open(self.path()).unwrap();
        conn.execute_batch("BEGIN IMMEDIATE").unwrap();
        conn
    }

    fn log_bytes(&self) -> u64 {
        std::fs::metadata(self.dir.path().join("ledger.db-wal")).map_or(0, |log| log.len())
    }
}

fn advance(name: &str) -> Outgoing {
    Outgoing { run: run_key(name), queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

fn run_key(name: &str) -> RunKey {
    RunKey { tenant: tenant(), run: RunId::new(name).unwrap() }
}

/// The first commit of a run with the idempotency key `request`.
fn admission(request: &str) -> Admission {
    admission_with(request, json!({ "request": request }))
}

/// The decision for `command`.
fn decided(record: &RunRecord, command: impl Command) -> Decision {
    let plan = plan();
    let mut draft = Draft::new(record.clone(), &plan, ledger::context(NOON));
    assert!(command.decide(&mut draft).is_ok());
    draft.close()
}
