//! What is particular to the embedded store: a file that outlives its process and may have two, one sync
//! for many writes, and a disk that can be full.
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
use domain::worker_registry::KEPT_FOR;
use domain::{
    Applied, BlobRef, Cause, Decision, Digest, Draft, Initiator, Job, Millis, Outgoing, QueueName, RunId,
    RunKey, RunRecord, Timestamp, WorkerRecord, WorkerReport,
};
use rusqlite::Connection;
use serde_json::json;
use support::{admission_with, error_chain, plan, stamp, tenant};
use tempfile::TempDir;

const HIDDEN: Millis = Millis::secs(60);

/// More than enough for what should happen at once.
const PATIENTLY: Duration = Duration::from_secs(20);

#[tokio::test]
async fn everything_survives_a_restart() {
    let ledgers = Ledgers::new();
    let store = ledgers.open();
    let admission = admission("request");
    let record = admission.decision.record.clone();
    store.admit(admission.clone()).await.unwrap();
    store.put_plan(&record.key.tenant, &plan()).await.unwrap();
    let blob = store.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    drop(store);

    let store = ledgers.open();

    assert_eq!(store.load(&record.key).await.unwrap(), Some(record.clone()));
    assert_eq!(store.input(&record.key).await.unwrap(), Some(admission.input));
    assert_eq!(store.plan(&record.key.tenant, &record.plan).await.unwrap(), Some(plan()));
    assert_eq!(store.blob(BlobKind::Payloads, &tenant(), &blob).await.unwrap(), Some(b"large".to_vec()));
    let received = store.receive(QueueName::Steps, 10, HIDDEN, Duration::ZERO).await.unwrap();
    assert_eq!(received.into_iter().map(|delivery| delivery.run).collect::<Vec<_>>(), [record.key]);
}

#[tokio::test]
async fn a_worker_that_has_not_signed_for_a_day_is_taken_off_the_roll_by_whoever_signs_next() {
    let ledgers = Ledgers::new();
    let store = ledgers.open();
    let signs =
        |name: &str, at| WorkerRecord::new(name.parse().unwrap(), WorkerReport::Working { in_hand: 0 }, at);
    let now = SystemClock.now();
    // A clock that is wrong takes nobody else off.
    let (old, ahead) =
        (signs("old", now.earlier(Millis(KEPT_FOR.0 + 1_000))), signs("ahead", now + KEPT_FOR + KEPT_FOR));
    let young = signs("young", now.earlier(Millis(KEPT_FOR.0 / 2)));
    for worker in [&old, &young, &ahead] {
        assert_eq!(store.put_worker(worker.clone()).await.unwrap(), Write::Committed);
    }
    assert_eq!(store.roll().await.unwrap(), [ahead, young]);
}

#[tokio::test]
async fn an_old_handle_neither_extends_nor_deletes() {
    let ledgers = Ledgers::new();
    let store = ledgers.open();
    store.admit(admission("request")).await.unwrap();
    let one = async |visibility| {
        store.receive(QueueName::Steps, 1, visibility, PATIENTLY).await.unwrap().pop().unwrap().handle
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
    let ledgers = Ledgers::new();
    let (one, other) = (ledgers.open(), ledgers.open());
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

/// Looking once a second would take five seconds for this, on average.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_from_one_process_wakes_a_receiver_in_another_at_once() {
    let ledgers = Ledgers::new();
    let (sender, receiver) = (ledgers.open(), Arc::new(ledgers.open()));
    let mut took = Duration::ZERO;
    for n in 0..10 {
        let waiting = tokio::spawn({
            let receiver = Arc::clone(&receiver);
            async move { receiver.receive(QueueName::Steps, 1, HIDDEN, PATIENTLY).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let begun = Instant::now();
        sender.send(&advance(&format!("run-{n}"))).await.unwrap();
        assert_eq!(waiting.await.unwrap().len(), 1);
        took += begun.elapsed();
    }
    assert!(took < Duration::from_millis(2_500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_that_wait_together_are_synced_together() {
    let ledgers = Ledgers::new();
    let store = Arc::new(ledgers.open());
    let writes = send_while_the_file_is_held(&ledgers, &store, 100).await;
    assert!(writes.into_iter().all(|written| written.is_ok()));

    let usage = store.usage();

    assert_eq!(usage.writes, 100);
    assert!(usage.commits < 10, "{usage:?}");
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 100);
}

/// So many messages are sent while another process holds the file: the writer waits with the first, and
/// the others wait together.
async fn send_while_the_file_is_held(
    ledgers: &Ledgers,
    store: &Arc<SqliteStore>,
    count: usize,
) -> Vec<Result<(), StoreError>> {
    let send = |n| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.send(&advance(&format!("run-{n}"))).await })
    };
    let holder = ledgers.hold();
    let mut sends = vec![send(0)];
    tokio::time::sleep(Duration::from_millis(50)).await;
    sends.extend((1..count).map(send));
    tokio::time::sleep(Duration::from_millis(250)).await;
    drop(holder);
    let mut answers = Vec::new();
    for send in sends {
        answers.push(send.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_that_fails_does_not_fail_its_neighbours() {
    let ledgers = Ledgers::new();
    let store = Arc::new(ledgers.open());
    // Its first event twice: the file refuses that in the middle of the group.
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

    let writes = send_while_the_file_is_held(&ledgers, &store, 20).await;

    assert!(writes.into_iter().all(|written| written.is_ok()));
    assert!(matches!(failing.await.unwrap(), Err(StoreError::Broken { .. })));
    assert_eq!(store.depth(QueueName::Steps).await.unwrap(), 20);
    assert_eq!(store.load(&run).await.unwrap(), None);
    assert_eq!(store.admit(admission("request")).await.unwrap(), Write::Committed);
}

#[tokio::test]
async fn a_write_that_fails_in_memory_leaves_nothing_behind() {
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
    let ledgers = Ledgers::new();
    drop(ledgers.open());
    let conn = Connection::open(ledgers.path()).unwrap();
    conn.pragma_update(None, "user_version", 99).unwrap();

    let error = error_chain(&ledgers.try_open().err().unwrap());

    assert!(error.contains("open the store's file"), "{error}");
    assert!(error.contains("schema version 99") && error.contains("start with a new file"), "{error}");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let ledgers = Ledgers::new();
    let letter = "Dear reader, this is not a database. ".repeat(100);
    std::fs::write(ledgers.path(), &letter).unwrap();

    let error = error_chain(&ledgers.try_open().err().unwrap());

    assert!(error.contains("not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(ledgers.path()).unwrap(), letter);
}

#[test]
fn a_place_where_no_file_can_be_is_refused() {
    let ledgers = Ledgers::new();
    let nowhere = ledgers.path().join("below/a/file/that/is/not/there");
    let error = error_chain(&SqliteStore::open(nowhere, SqliteOptions::default()).err().unwrap());
    assert!(error.contains("unable to open"), "{error}");
}

#[tokio::test]
async fn a_blob_that_was_altered_is_not_given_out() {
    let ledgers = Ledgers::new();
    let store = ledgers.open();
    let blob = store.put_blob(BlobKind::Payloads, &tenant(), b"the truth".to_vec()).await.unwrap();
    let conn = Connection::open(ledgers.path()).unwrap();
    conn.execute("UPDATE blobs SET body = ?1", [b"a lie".as_slice()]).unwrap();

    assert!(matches!(store.blob(BlobKind::Payloads, &tenant(), &blob).await, Err(StoreError::Broken { .. })));
    let other = BlobRef { sha256: Digest::of_bytes(b"another"), bytes: 7 };
    assert_eq!(store.blob(BlobKind::Payloads, &tenant(), &other).await.unwrap(), None);
}

#[tokio::test]
async fn a_schedule_that_cannot_be_read_keeps_no_other_from_coming_round() {
    let ledgers = Ledgers::new();
    let store = ledgers.open();
    for workflow in ["hourly", "nightly"] {
        let applied = Applied {
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
    let conn = Connection::open(ledgers.path()).unwrap();
    conn.execute("UPDATE workflows SET body = '{' WHERE workflow = 'hourly'", []).unwrap();

    let due = store.due_schedules(Timestamp(1), 10).await.unwrap();
    let due: Vec<_> = due.iter().map(|due| due.applied.workflow.as_str()).collect();
    assert_eq!(due, ["nightly"]);
}

#[tokio::test]
async fn a_checkpoint_empties_the_log_and_loses_nothing() {
    let ledgers = Ledgers::new();
    let store = ledgers.open();
    let admission = admission("request");
    let record = admission.decision.record.clone();
    store.admit(admission).await.unwrap();
    assert!(ledgers.log_bytes() > 0);

    store.checkpoint().await.unwrap();

    assert_eq!(ledgers.log_bytes(), 0);
    assert_eq!(store.load(&record.key).await.unwrap(), Some(record));
    assert_eq!(store.plan(&tenant(), &Digest::ZERO).await.unwrap(), None);
}

/// A directory with a store's file in it.
struct Ledgers {
    dir: TempDir,
}

impl Ledgers {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("ledger.db")
    }

    /// Opens the store as a process of its own would.
    fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.path(), SqliteOptions::default())
    }

    /// Keeps everybody else from writing until it is dropped.
    fn hold(&self) -> Connection {
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

/// The first commit of a run that `request` names.
fn admission(request: &str) -> Admission {
    admission_with(request, json!({ "request": request }))
}

/// What the rules say to `command`.
fn decided(record: &RunRecord, command: impl Command) -> Decision {
    let plan = plan();
    let mut draft = Draft::new(record.clone(), &plan, stamp());
    assert!(command.decide(&mut draft).is_ok());
    draft.close()
}
