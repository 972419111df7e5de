//! Kills the real worker process with SIGKILL at a numbered call, before or after the call is carried out, many times on
//! one SQLite file. Afterwards every run has succeeded, every effect has happened once, every chain is intact, and the
//! evidence of every run verifies.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use countersign_crash::binary::countersign;
use countersign_crash::counting::CountingService;
use domain::{RunKey, RunStatus};
use engine::{Engine, StartRun};
use serde_json::json;
use store::SqliteStore;
use testkit::{engine, open, request};

/// Enough to hit every call on both sides several times.
const KILLS: u32 = 200;

/// A worker makes about this many calls for one run of the workflow below.
const CALLS: u32 = 38;

/// A worker that is not killed exits when idle. If this many attempts do not give `KILLS` kills, the test fails.
const TRIES_MAX: u32 = 4_000;

fn workflow(service: &CountingService) -> String {
    let url = format!("http://{}/effect", service.address());
    format!(
        "workflow: killed\nversion: 1\nenvironment: dev\nsteps:\n\
         - {{ id: facts, tool: transform, with: {{ value: {{ n: '${{ trigger.n }}' }} }}, retry: {{ attempts: 20 }} }}\n\
         - {{ id: first, tool: http.request, with: {{ method: PUT, url: '{url}', body: {{ n: '${{ steps.facts.n }}' }}, effect: native_key }}, retry: {{ attempts: 20 }} }}\n\
         - {{ id: second, tool: http.request, with: {{ method: PUT, url: '{url}', body: {{ ok: '${{ steps.first.body.ok }}' }}, effect: native_key }}, retry: {{ attempts: 20 }} }}\n\
         - {{ id: sum, tool: transform, with: {{ value: '${{ steps.facts.n + 1 }}' }}, retry: {{ attempts: 20 }} }}\n"
    )
}

async fn start(engine: &Engine<SqliteStore>, source: &str, n: u32) -> RunKey {
    let tenant = "default".parse().unwrap();
    let request =
        StartRun { tenant, input: json!({ "n": n }), ..request(engine, source, &format!("killed:{n}")) };
    engine.admission().start(request).await.unwrap().run
}

/// Runs a worker that kills itself at `crash_at`; returns whether it did.
fn work(binary: &Path, file: &Path, service: &CountingService, crash_at: &str) -> bool {
    let output = Command::new(binary)
        .args(["--store", &file.to_string_lossy(), "worker", "--until-idle", "--concurrency", "1"])
        // Short, so that the test takes minutes.
        .args(["--lease", "400ms", "--renew-every", "100ms"])
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
async fn worker_killed_at_any_call_loses_and_repeats_nothing() {
    let binary = countersign().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("killed.db");
    let service = CountingService::serve();
    let (engine, source) = (engine().standard_tools().on(open(&file)), workflow(&service));

    let (mut kills, mut runs) = (0, Vec::new());
    for attempt in 0..TRIES_MAX {
        if kills >= KILLS {
            break;
        }
        // Every third worker gets a new run; the others recover runs of killed workers.
        if attempt % 3 == 0 {
            runs.push(start(&engine, &source, attempt).await);
        }
        let side = if attempt % 2 == 0 { "before" } else { "after" };
        // Every call on both sides, in an order that mixes early and late crashes.
        let call = (attempt * 7 + attempt / CALLS) % CALLS;
        kills += u32::from(work(&binary, &file, &service, &format!("{call}:{side}")));
    }
    assert!(kills >= KILLS, "only {kills} of {KILLS} workers were killed");
    assert!(!work(&binary, &file, &service, "1000000:before"), "the last worker finishes the remaining runs");

    let key = std::fs::read_to_string(file.with_file_name("killed.db.pub")).unwrap();
    let key = evidence::PublicKey::from_text(&key).unwrap();
    for run in &runs {
        let view = engine.operations().inspect(run).await.unwrap();
        assert_eq!(view.record.status, RunStatus::Succeeded, "{run}: {:?}", view.record.step_state);
        assert!(view.events.is_ok(), "{run}: {:?}", view.events.err());
        let (_, bundle) = engine.operations().evidence(run).await.unwrap();
        let verified = evidence::verify(&bundle, &key);
        assert!(verified.is_ok(), "{run}: {:?}", verified.err());
    }
    let counts = service.counts();
    assert_eq!(counts.effects.len(), runs.len() * 2, "every effect happened exactly once");
    let repeated = counts.requests.values().filter(|requests| **requests > 1).count();
    assert!(repeated > 0, "no request was repeated, so the test covered no recovery");
    println!(
        "{kills} kills, {} runs, {} effects, {repeated} requests repeated",
        runs.len(),
        counts.effects.len()
    );
}
