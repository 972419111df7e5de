//! A worker process that is suspended for longer than its lease, and then continues.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_crash::binary::countersign;
use countersign_crash::counting::CountingService;
use domain::{RunKey, RunStatus};
use engine::{Engine, StartRun};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use store::{Ledger as _, SqliteStore};
use testkit::{engine, open, request};

const LEASE: Duration = Duration::from_millis(400);

/// The worker to suspend during its first request, and the channel that reports the suspension.
type Victim = Arc<Mutex<Option<(Pid, Sender<()>)>>>;

/// The effect happens and the worker is suspended before it receives the reply. Another worker takes over and finishes.
/// When the first worker continues, it still acts as the holder of the step; its commit is rejected.
#[tokio::test]
async fn sigstop_2_leases_then_sigcont() {
    let binary = countersign().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stopped.db");
    let victim = Victim::default();
    let service = CountingService::serve_with(stop_once(Arc::clone(&victim), file.clone()));
    let engine = engine().standard_tools().on(open(&file));
    let run = start(&engine, &service).await;
    let (stopped, is_stopped) = channel();
    let mut first = spawn_victim(&victim, worker(&binary, &file, &service), stopped);
    is_stopped.recv_timeout(Duration::from_secs(30)).unwrap();
    std::thread::sleep(LEASE * 2);

    let second = worker(&binary, &file, &service).spawn().unwrap().wait().unwrap();

    assert!(second.success());
    let before = engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!(before.status, RunStatus::Succeeded, "another worker took over");
    assert!(first.try_wait().unwrap().is_none(), "the first worker is still suspended");
    kill_process(Pid::from_child(&first), Signal::CONT).unwrap();
    assert!(first.wait().unwrap().success(), "the first worker continues and exits");
    assert_eq!(
        engine.store().load(&run).await.unwrap().unwrap(),
        before,
        "the late commit of the first worker changed nothing"
    );
    assert!(engine.operations().inspect(&run).await.unwrap().events.is_ok());
    let counts = service.counts();
    assert_eq!(counts.effects.len(), 1, "the effect happened once");
    assert_eq!(counts.requests.values().collect::<Vec<_>>(), [&2], "both workers sent the request");
}

/// Starts the worker to suspend. The lock keeps `stop_once` from running before the process id is known.
fn spawn_victim(victim: &Victim, mut worker: Command, stopped_signal: Sender<()>) -> Child {
    let mut victim = victim.lock().unwrap();
    let child = worker.spawn().unwrap();
    *victim = Some((Pid::from_child(&child), stopped_signal));
    child
}

/// Suspends the victim during the first request, at a time when it does not hold the write lock of the SQLite file.
/// Otherwise the second worker would wait for the file lock instead of the lease.
fn stop_once(victim: Victim, file: PathBuf) -> impl Fn(u32) + Send {
    move |_| {
        if let Some((pid, stopped_signal)) = victim.lock().unwrap().take() {
            kill_process(pid, Signal::STOP).unwrap();
            while !is_unlocked(&file) {
                kill_process(pid, Signal::CONT).unwrap();
                std::thread::sleep(Duration::from_millis(3));
                kill_process(pid, Signal::STOP).unwrap();
            }
            stopped_signal.send(()).unwrap();
        }
    }
}

/// Whether no process holds the write lock of the store, shortly after the victim was suspended.
fn is_unlocked(file: &Path) -> bool {
    std::thread::sleep(Duration::from_millis(20));
    let connection = Connection::open(file).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
}

fn worker(binary: &Path, file: &Path, service: &CountingService) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["--store", &file.to_string_lossy(), "worker", "--until-idle", "--concurrency", "1"])
        .args(["--lease", "400ms", "--renew-every", "100ms"])
        .args(["--allow-host", &service.address().to_string()])
        .stdin(Stdio::null());
    command
}

async fn start(engine: &Engine<SqliteStore>, service: &CountingService) -> RunKey {
    let url = format!("http://{}/effect", service.address());
    let source = format!(
        "workflow: stopped\nversion: 1\nenvironment: dev\nsteps:\n\
         - {{ id: effect, tool: http.request, with: {{ method: PUT, url: '{url}', body: {{ n: 1 }}, effect: native_key }} }}\n"
    );
    let request = StartRun { tenant: "default".parse().unwrap(), ..request(engine, &source, "stopped") };
    engine.admission().start(request).await.unwrap().run
}
