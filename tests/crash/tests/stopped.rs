//! A worker process that stands still for longer than its lease, and then goes on as if nothing had happened.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connectors::Allow;
use countersign_crash::binary::countersign;
use countersign_crash::counting::Counting;
use domain::{Cause, Initiator, RunKey, RunStatus};
use engine::{Engine, Parts, StartRun, Timing};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use store::{Ledger as _, SqliteOptions, SqliteStore, SystemClock};

const LEASE: Duration = Duration::from_millis(400);

/// The worker that is stopped while its first request is answered, and who is told of it.
type Victim = Arc<Mutex<Option<(Pid, Sender<()>)>>>;

/// The effect happens, the worker is stopped before it hears of it, and another one takes over and finishes. When
/// the first goes on it still believes that it holds the step; its commit is refused.
#[tokio::test]
async fn sigstop_2_leases_then_sigcont() {
    let binary = countersign().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stopped.db");
    let victim = Victim::default();
    let service = Counting::serve_and(stop_once(Arc::clone(&victim), file.clone())).unwrap();
    let engine = engine(&file);
    let run = start(&engine, &service).await;
    let (stopped, is_stopped) = channel();
    let mut first = begin(&victim, worker(&binary, &file, &service), stopped);
    is_stopped.recv_timeout(Duration::from_secs(30)).unwrap();
    std::thread::sleep(LEASE * 2);

    let second = worker(&binary, &file, &service).spawn().unwrap().wait().unwrap();

    assert!(second.success());
    let before = engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!(before.status, RunStatus::Succeeded, "another worker took over");
    assert!(first.try_wait().unwrap().is_none(), "the first one still stands");
    kill_process(Pid::from_child(&first), Signal::CONT).unwrap();
    assert!(first.wait().unwrap().success(), "and goes on, and finds that there is nothing to do");
    assert_eq!(engine.store().load(&run).await.unwrap().unwrap(), before, "its late commit changed nothing");
    assert!(engine.inspect(&run).await.unwrap().events.is_ok());
    let counts = service.counts();
    assert_eq!(counts.done.len(), 1, "the effect happened once");
    assert_eq!(counts.asked.values().collect::<Vec<_>>(), [&2], "and was asked for by both");
}

/// Starts the worker that is to be stopped; nobody is before it is known who it is.
fn begin(victim: &Victim, mut worker: Command, told: Sender<()>) -> Child {
    let mut victim = victim.lock().unwrap();
    let child = worker.spawn().unwrap();
    *victim = Some((Pid::from_child(&child), told));
    child
}

/// Stops the victim at the first request that comes, and at a moment when it is not writing: whoever is stopped
/// in the middle of a write keeps the lock of the file, and everybody else waits for them, not for a lease.
fn stop_once(victim: Victim, file: PathBuf) -> impl Fn(u32) + Send {
    move |_| {
        if let Some((pid, told)) = victim.lock().unwrap().take() {
            kill_process(pid, Signal::STOP).unwrap();
            while !is_free(&file) {
                kill_process(pid, Signal::CONT).unwrap();
                std::thread::sleep(Duration::from_millis(3));
                kill_process(pid, Signal::STOP).unwrap();
            }
            told.send(()).unwrap();
        }
    }
}

/// Whether nobody holds the lock of the store for writing, shortly after everybody was stopped who is.
fn is_free(file: &Path) -> bool {
    std::thread::sleep(Duration::from_millis(20));
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
}

fn worker(binary: &Path, file: &Path, service: &Counting) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["--store", &file.to_string_lossy(), "worker", "--until-idle", "--concurrency", "1"])
        .args(["--lease", "400ms", "--heartbeat", "100ms"])
        .args(["--allow-host", &service.address().to_string()])
        .stdin(Stdio::null());
    command
}

fn engine(file: &Path) -> Engine<SqliteStore> {
    Engine::new(Parts {
        store: Arc::new(SqliteStore::open(file, SqliteOptions::default()).unwrap()),
        tools: connectors::standard(Allow::default(), connectors::Settings::default()),
        clock: Arc::new(SystemClock),
        me: "test".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

async fn start(engine: &Engine<SqliteStore>, service: &Counting) -> RunKey {
    let url = format!("http://{}/effect", service.address());
    let source = format!(
        "workflow: stopped\nversion: 1\nenvironment: dev\nsteps:\n\
         - {{ id: effect, tool: http.request, with: {{ method: POST, url: '{url}', body: {{ n: 1 }}, effect: native_key }} }}\n"
    );
    let names = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: "default".parse().unwrap(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(&source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: "stopped".parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::System, "test"),
    };
    engine.start(wish).await.unwrap().run
}
