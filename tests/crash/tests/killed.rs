//! The real worker process is killed with SIGKILL at a numbered call, before or after it is carried out,
//! again and again, on one SQLite file. Afterwards every run has succeeded, every effect has happened once,
//! every chain holds, and the evidence of every run verifies.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use connectors::{Allow, Toolbox};
use countersign_crash::binary::countersign;
use countersign_crash::counting::Counting;
use domain::{Cause, IdempotencyKey, Initiator, RunKey, RunStatus, TenantId, WorkerId, WorkspaceId};
use engine::{Engine, Parts, StartRun, Timing};
use serde_json::json;
use store::{SqliteOptions, SqliteStore, SystemClock};

/// More than the issue of dying can be blamed on luck.
const KILLS: u32 = 200;

/// A worker makes about this many calls for one run of the workflow below.
const CALLS: u32 = 38;

/// A worker that is never killed must end by itself; this many in a row that do not means it is stuck.
const TRIES_MAX: u32 = 4_000;

fn workflow(service: &Counting) -> String {
    let url = format!("http://{}/effect", service.address());
    format!(
        "workflow: killed\nversion: 1\nenvironment: dev\nsteps:\n\
         - {{ id: facts, tool: transform, with: {{ value: {{ n: '${{ trigger.n }}' }} }}, retry: {{ attempts: 20 }} }}\n\
         - {{ id: first, tool: http.request, with: {{ method: POST, url: '{url}', body: {{ n: '${{ steps.facts.n }}' }}, effect: native_key }}, retry: {{ attempts: 20 }} }}\n\
         - {{ id: second, tool: http.request, with: {{ method: POST, url: '{url}', body: {{ ok: '${{ steps.first.body.ok }}' }}, effect: native_key }}, retry: {{ attempts: 20 }} }}\n\
         - {{ id: sum, tool: transform, with: {{ value: '${{ steps.facts.n + 1 }}' }}, retry: {{ attempts: 20 }} }}\n"
    )
}

fn engine(file: &Path) -> Engine<SqliteStore> {
    Engine::new(Parts {
        store: Arc::new(SqliteStore::open(file, SqliteOptions::default()).unwrap()),
        tools: tools(),
        clock: Arc::new(SystemClock),
        me: WorkerId::new("test").unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

fn tools() -> Toolbox {
    connectors::standard(Allow::default(), connectors::Settings::default())
}

async fn start(engine: &Engine<SqliteStore>, source: &str, n: u32) -> RunKey {
    let names = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: TenantId::new("default").unwrap(),
        workspace: WorkspaceId::new("main").unwrap(),
        plan: workflow::parse(source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: IdempotencyKey::new(&format!("killed:{n}")).unwrap(),
        input: json!({ "n": n }),
        by: Initiator::new(Cause::System, "test"),
    };
    engine.start(wish).await.unwrap().run
}

/// Runs a worker that kills itself at `crash_at`; says whether it did.
fn work(binary: &Path, file: &Path, service: &Counting, crash_at: &str) -> bool {
    let output = Command::new(binary)
        .args(["--store", &file.to_string_lossy(), "worker", "--until-idle", "--concurrency", "1"])
        // Short, so that a test takes minutes; the protocol does not care.
        .args(["--lease", "400ms", "--heartbeat", "100ms"])
        .args(["--allow-host", &service.address().to_string()])
        .args(["--crash-at", crash_at])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let killed = output.status.signal() == Some(9);
    assert!(killed || output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    killed
}

#[tokio::test]
async fn a_worker_killed_anywhere_loses_nothing_and_doubles_nothing() {
    let binary = countersign().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("killed.db");
    let service = Counting::serve().unwrap();
    let (engine, source) = (engine(&file), workflow(&service));

    let (mut kills, mut runs) = (0, Vec::new());
    for attempt in 0..TRIES_MAX {
        if kills >= KILLS {
            break;
        }
        // A new run now and then; most workers find one that somebody died on.
        if attempt % 3 == 0 {
            runs.push(start(&engine, &source, attempt).await);
        }
        let side = if attempt % 2 == 0 { "before" } else { "after" };
        // Every call and both sides, in an order that mixes early deaths with late ones.
        let call = (attempt * 7 + attempt / CALLS) % CALLS;
        kills += u32::from(work(&binary, &file, &service, &format!("{call}:{side}")));
    }
    assert!(kills >= KILLS, "only {kills} workers were killed");
    assert!(!work(&binary, &file, &service, "1000000:before"), "the last worker finishes what is left");

    let key = std::fs::read_to_string(file.with_file_name("killed.db.pub")).unwrap();
    let key = evidence::PublicKey::from_text(&key).unwrap();
    for run in &runs {
        let view = engine.inspect(run).await.unwrap();
        assert_eq!(view.record.status, RunStatus::Succeeded, "{run}: {:?}", view.record.live);
        assert!(view.events.is_ok(), "{run}: {:?}", view.events.err());
        let (_, bundle) = engine.evidence(run).await.unwrap();
        let verified = evidence::verify(&bundle, &key);
        assert!(verified.is_ok(), "{run}: {:?}", verified.err());
    }
    let counts = service.counts();
    assert_eq!(counts.done.len(), runs.len() * 2, "every effect of every run happened, and none twice");
    let repeated = counts.asked.values().filter(|asked| **asked > 1).count();
    assert!(repeated > 0, "some requests must have been repeated, or nothing was tried");
    println!(
        "{kills} kills, {} runs, {} effects, {repeated} requests repeated",
        runs.len(),
        counts.done.len()
    );
}
