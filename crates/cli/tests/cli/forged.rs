//! A user with write access to the store file rewrites an ended run.

use std::time::{Duration, Instant};

use domain::{Digest, Event, RunKey, chain};
use rusqlite::{Connection, params};

use crate::bundle::finished;
use crate::env::{CliEnv, WAIT_MAX};
use crate::http_stub::HttpStub;

/// Forges a run: bob's approval becomes eve's in the chain, the record and the approvals, with correct
/// hashes.
fn forge(env: &CliEnv, run: &str) -> Connection {
    let store = Connection::open(env.path("countersign.db")).unwrap();
    let key = RunKey { tenant: "default".parse().unwrap(), run: run.parse().unwrap() };
    let eve = |text: &str| text.replace("bob", "eve");
    let rows: Vec<(u32, Vec<u8>, Vec<u8>)> = store
        .prepare("SELECT n, event, hash FROM history ORDER BY n")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let mut head = Digest::ZERO;
    for (n, event, _) in &rows {
        let event: Event = serde_json::from_str(&eve(str::from_utf8(event).unwrap())).unwrap();
        let chained = chain::chain_event(&key, &head, event);
        head = chained.hash;
        let row = params![n, chained.canonical, head.as_bytes().as_slice()];
        store.execute("UPDATE history SET event = ?2, hash = ?3 WHERE n = ?1", row).unwrap();
    }
    let sealed_head = hex(&rows.last().unwrap().2);
    assert_ne!(sealed_head, head.to_string(), "the forgery changes the chain");
    let record: String = store.query_row("SELECT body FROM runs", [], |row| row.get(0)).unwrap();
    let forged = eve(&record).replace(&sealed_head, &head.to_string());
    store.execute("UPDATE runs SET body = ?1", [forged]).unwrap();
    store.execute("UPDATE approvals SET body = replace(body, 'bob', 'eve')", []).unwrap();
    store
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|half| char::from_digit(half.into(), 16))
        .collect()
}

/// Asks a worker for the evidence, and returns its log.
fn request_evidence(env: &CliEnv, store: &Connection, run: &str) -> String {
    let job = "INSERT INTO messages (queue, visible_at, tenant, run, job)
               VALUES ('steps', 0, 'default', ?1, 'build_evidence')";
    store.execute(job, [run]).unwrap();
    let (_worker, until) = (env.worker(""), Instant::now() + WAIT_MAX);
    loop {
        let log = std::fs::read_to_string(env.path("worker.log")).unwrap();
        let signed: u32 = store.query_row("SELECT count(*) FROM evidence", [], |row| row.get(0)).unwrap();
        assert_eq!(signed, 0, "nothing is signed");
        if log.contains("evidence_refused") || Instant::now() > until {
            return log;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn run_changed_after_signing_is_detected() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("run show {run}")).expect(0).prints("verified, same as in the signed bundle");
    assert_eq!(env.show(&run)["chain"]["evidence"], "matches");

    let store = forge(&env, &run);
    let altered = "ALTERED: the run was changed after its evidence was signed: the chain of events differs";
    env.run(&format!("run show {run}")).expect(1).prints(altered);
    let seen = env.run(&format!("run show {run} --json")).expect(1).json();
    assert_eq!((&seen["chain"]["verified"], &seen["chain"]["evidence"]), (&false.into(), &"altered".into()));
    // Without the rows that refer to the bundle, the bundle is found by the run.
    store.execute_batch("DELETE FROM evidence; DELETE FROM log; DELETE FROM log_head").unwrap();
    env.run(&format!("run show {run}")).expect(1).prints(altered);
}

#[test]
fn altered_approval_or_bundle_is_detected() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    let store = Connection::open(env.path("countersign.db")).unwrap();
    let approvals = |from: &str, to: &str| {
        store.execute("UPDATE approvals SET body = replace(body, ?1, ?2)", [from, to]).unwrap();
    };
    approvals("\"bob\"", "\"eve\"");
    env.run(&format!("run show {run}"))
        .expect(1)
        .prints("after its evidence was signed: an approval differs");
    approvals("\"eve\"", "\"bob\"");
    env.run(&format!("run show {run}")).expect(0);
    let sign =
        "UPDATE bundles SET body = CAST(replace(CAST(body AS TEXT), '\"sig\":\"', '\"sig\":\"AAAA') AS BLOB)";
    store.execute(sign, []).unwrap();
    env.run(&format!("run show {run}")).expect(1).prints("the signature of the bundle differs");
}

#[test]
fn altered_receipt_is_detected() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    let store = Connection::open(env.path("countersign.db")).unwrap();
    let receipts = |from: &str, to: &str| {
        let replace = "UPDATE receipts SET body = replace(body, ?1, ?2)";
        assert!(store.execute(replace, [from, to]).unwrap() > 0);
    };
    let altered = "a receipt differs from the signed bundle";
    env.run(&format!("run show {run}")).expect(0);
    receipts("/mails", "/nails");
    env.run(&format!("run show {run}")).expect(1).prints(altered);
    receipts("/nails", "/mails");
    env.run(&format!("run show {run}")).expect(0);
    store.execute("DELETE FROM receipts", []).unwrap();
    env.run(&format!("run show {run}")).expect(1).prints(altered);
}

/// A bundle without a valid signature must not count because it names a key that cannot be verified.
#[test]
fn bundle_of_another_key_does_not_verify_a_run() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    let store = Connection::open(env.path("countersign.db")).unwrap();
    let text = "CAST(body AS TEXT)";
    let key_at = format!("instr({text}, '\"keyid\":\"') + 8");
    let name_other_key = format!(
        "UPDATE bundles SET body = \
         CAST(substr({text}, 1, {key_at}) || printf('%064d', 0) || substr({text}, {key_at} + 65) AS BLOB)"
    );
    assert_eq!(store.execute(&name_other_key, []).unwrap(), 1);
    env.run(&format!("run show {run}")).expect(1).prints("NOT VERIFIED: the bundle names another key");
    let shown = env.run(&format!("run show {run} --json")).expect(1).json();
    assert_eq!(shown["chain"]["evidence"], "other_key");
    // Nor is it recorded as the evidence of the run.
    store.execute_batch("DELETE FROM evidence").unwrap();
    let log = request_evidence(&env, &store, &run);
    assert!(log.contains("evidence_refused") && log.contains("its signed bundle"), "{log}");
}

#[test]
fn altered_run_is_not_signed_again() {
    for (rows, reason) in [
        ("evidence; DELETE FROM log; DELETE FROM log_head", "its signed bundle differs"),
        ("evidence; DELETE FROM bundles", "its entry in the transparency log differs"),
        ("evidence; DELETE FROM bundles; DELETE FROM log", "contradict its head"),
    ] {
        let (env, stub) = (CliEnv::new(), HttpStub::open());
        let run = finished(&env, &stub);
        let store = forge(&env, &run);
        store.execute_batch(&format!("DELETE FROM {rows}")).unwrap();
        let log = request_evidence(&env, &store, &run);
        assert!(log.contains("evidence_refused") && log.contains(reason), "{rows}: {log}");
        assert_ne!(env.run(&format!("bundle get {run} --out forged.bundle")).code, 0, "{rows}");
        assert!(!env.path("forged.bundle").exists(), "{rows}");
    }
}

#[test]
fn restored_store_has_another_log() {
    let env = CliEnv::new();
    let one =
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}";
    env.start(one);
    env.work("");
    std::fs::create_dir(env.path("backup")).unwrap();
    env.run("store backup backup/countersign.db")
        .expect(0)
        .prints("copied countersign.db to backup/countersign.db");
    env.run("store backup backup/countersign.db").expect(1).prints("already exists");
    env.run("store restore backup/countersign.db").expect(1).prints("countersign.db already exists");
    env.run("--store restored.db store restore backup/countersign.db").expect(0).prints("has a new name");

    let [original, restored] = ["countersign.db", "restored.db"].map(|store| {
        let run = env.run(&format!("--store {store} run start workflow.yaml --json")).expect(0).json();
        let run = run["run"].as_str().unwrap().to_owned();
        env.run(&format!("--store {store} worker --until-idle")).expect(0);
        let file = format!("{store}.bundle");
        env.run(&format!("--store {store} bundle get {run} --out {file}")).expect(0);
        env.run(&format!("bundle show {file} --key countersign.db.pub --json")).expect(0).json()["bundle"]
            .clone()
    });
    // Both have the second entry, with different roots. Under one name they would contradict each other.
    assert_eq!((&original["log"]["size"], &restored["log"]["size"]), (&2.into(), &2.into()));
    assert_ne!(original["log"]["origin"], restored["log"]["origin"]);
    assert_ne!(original["log"]["root"], restored["log"]["root"]);
}

/// SQLite would apply the commits in the log of the old database to the restored one.
#[test]
fn restore_refuses_the_log_of_the_old_database() {
    let env = CliEnv::new();
    env.start(
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    env.run("store backup backup.db").expect(0);
    // A process that was killed leaves its last commits in the write-ahead log.
    let killed = Connection::open(env.path("countersign.db")).unwrap();
    killed.query_row("SELECT count(*) FROM runs", [], |_| Ok(())).unwrap();
    env.run("run start workflow.yaml").expect(0);
    let log = std::fs::read(env.path("countersign.db-wal")).unwrap();
    assert!(!log.is_empty());
    drop(killed);
    std::fs::remove_file(env.path("countersign.db")).unwrap();
    std::fs::write(env.path("countersign.db-wal"), log).unwrap();

    env.run("store restore backup.db").expect(1).prints("countersign.db-wal already exists");
    assert!(!env.path("countersign.db").exists());
    for ending in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(env.path(&format!("countersign.db{ending}")));
    }
    env.run("store restore backup.db").expect(0);
    assert_eq!(env.run("run list --json").expect(0).json()["runs"].as_array().map(Vec::len), Some(1));
}

/// Another process holds the store open, so that the last commits are in the write-ahead log.
#[test]
fn backup_has_the_commits_of_the_write_ahead_log() {
    let env = CliEnv::new();
    env.start(
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    env.work("");
    let reader = Connection::open(env.path("countersign.db")).unwrap();
    let runs = |store: &Connection| -> u32 {
        store.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(runs(&reader), 1);
    env.run("run start workflow.yaml").expect(0);
    assert!(env.path("countersign.db-wal").metadata().unwrap().len() > 0);
    env.run("store backup copy.db").expect(0);
    assert!(env.path("copy.db.key").exists() && env.path("copy.db.pub").exists());
    assert_eq!(runs(&Connection::open(env.path("copy.db")).unwrap()), 2);
    env.run("store backup missing/copy.db").expect(1).prints("missing/copy.db");
}

#[test]
fn lost_evidence_row_is_restored_from_the_bundle() {
    let (env, stub) = (CliEnv::new(), HttpStub::open());
    let run = finished(&env, &stub);
    env.run(&format!("bundle get {run} --out first.bundle")).expect(0);
    let store = Connection::open(env.path("countersign.db")).unwrap();
    store.execute_batch("DELETE FROM evidence; DELETE FROM log; DELETE FROM log_head").unwrap();
    env.run(&format!("bundle get {run} --out second.bundle")).expect(0);
    let read = |name: &str| std::fs::read(env.path(name)).unwrap();
    assert_eq!(read("first.bundle"), read("second.bundle"));
}
