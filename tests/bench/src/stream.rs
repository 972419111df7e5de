//! `bench stream`: how long it takes until everybody who listens has seen an event.
//!
//! The real server with its usual settings, and all listeners on the same machine and in the same process, so the two
//! cores serve both ends. What is measured begins before the event is committed and ends when a listener has read it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::stream::Streams;
use api::{Api, CursorSecret, Gate};
use domain::access::{ShownKey, secret_digest};
use domain::{ApiKey, Cause, IdempotencyKey, Initiator, KeyId, Role, Roles, RunKey, Timestamp, WorkspaceId};
use engine::{Engine, Parts, StartRun, Timing};
use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::json;
use store::{Access as _, SqliteOptions, SqliteStore, SystemClock};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::bench::{me, plan, tenant};
use crate::machine;
use crate::noop::Noop;
use crate::report::{ms, percentile};

/// What is promised: an event is seen by all within a second.
const PROMISED: Duration = Duration::from_secs(1);

/// Longer than any event takes that is not lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// Events come at every moment between two looks of the server, so they are spread over that time.
const APART: Duration = Duration::from_millis(310);

/// Beside two for each listener: the store, the server and what the process began with.
const FILES_BESIDE: u64 = 100;

/// The key's secret; it opens a store that is gone a moment later.
const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) listeners: u32,
    pub(crate) events: u32,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    listeners: u32,
    events: u32,
    /// All listen to the tenant.
    tenant: Latency,
    /// All listen to one run.
    run: Latency,
    cpu_s: f64,
    peak_mib: f64,
}

/// How long it took until an event was seen.
#[derive(Debug, Serialize)]
struct Latency {
    /// By one listener.
    seen_ms_p50: f64,
    seen_ms_p99: f64,
    /// By all of them.
    seen_by_all_ms_p50: f64,
    seen_by_all_ms_p99: f64,
    seen_by_all_ms_max: f64,
    connect_s: f64,
}

pub(crate) async fn run(load: Load, as_json: bool) -> Result<(), String> {
    let files = machine::allow_files(u64::from(load.listeners) * 2 + FILES_BESIDE)?;
    eprintln!("stream: {} listeners, {} events; up to {files} open files …", load.listeners, load.events);
    let scene = Scene::open().await?;
    let cpu = machine::cpu_s();
    let tenant = scene.measure(load, "/stream").await?;
    let run = scene.measure(load, &format!("/runs/{}/stream", scene.run.run)).await?;
    let report = Report {
        listeners: load.listeners,
        events: load.events,
        tenant,
        run,
        cpu_s: machine::cpu_s() - cpu,
        peak_mib: machine::peak_mib(),
    };
    let text = if as_json { serde_json::to_string(&report) } else { serde_json::to_string_pretty(&report) };
    println!("{}", text.map_err(told)?);
    let slowest = report.tenant.seen_by_all_ms_p99.max(report.run.seen_by_all_ms_p99);
    if slowest >= ms(PROMISED) {
        return Err(format!(
            "an event took {slowest} ms until all had seen it; {} are promised",
            ms(PROMISED)
        ));
    }
    Ok(())
}

struct Scene {
    engine: Arc<Engine<SqliteStore>>,
    run: RunKey,
    at: SocketAddr,
    _dir: TempDir,
}

type Socket = WebSocketStream<TcpStream>;

/// A listener has read its next event.
type Sight = Result<Instant, String>;

impl Scene {
    async fn open() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(told)?;
        let store = SqliteStore::open(dir.path().join("bench.db"), SqliteOptions::default()).map_err(told)?;
        let engine = Arc::new(Engine::new(Parts {
            store: Arc::new(store),
            tools: connectors::Toolbox::default().with(Noop),
            clock: Arc::new(SystemClock),
            me: me()?,
            timing: Timing::default(),
            shows: None,
            sealing: None,
        }));
        engine.store().put_key(key()?).await.map_err(told)?;
        let run = engine.start(wish()?).await.map_err(told)?.run;
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(told)?;
        let at = listener.local_addr().map_err(told)?;
        let api = Api::new(Gate::new(Arc::clone(&engine)), CursorSecret::new([7; 32]))
            .with_streams(Streams::default());
        let app = api::router(Arc::new(api));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { engine, run, at, _dir: dir })
    }

    async fn measure(&self, load: Load, path: &str) -> Result<Latency, String> {
        let connecting = Instant::now();
        let (seen, mut sights) = mpsc::unbounded_channel();
        let mut listeners = Vec::new();
        for _ in 0..load.listeners {
            let socket = self.listen(path).await?;
            listeners.push(tokio::spawn(read(socket, seen.clone())));
        }
        drop(seen);
        let connect_s = connecting.elapsed().as_secs_f64();
        // What was there before.
        all(&mut sights, load.listeners).await?;
        let (mut each, mut whole) = (Vec::new(), Vec::new());
        for number in 0..load.events {
            tokio::time::sleep(APART).await;
            let began = Instant::now();
            self.happen(number).await?;
            let seen = all(&mut sights, load.listeners).await?;
            let took = seen.iter().map(|at| at.duration_since(began));
            whole.extend(took.clone().max());
            each.extend(took);
        }
        for listener in listeners {
            listener.abort();
        }
        each.sort_unstable();
        whole.sort_unstable();
        Ok(Latency {
            seen_ms_p50: ms(percentile(&each, 50)),
            seen_ms_p99: ms(percentile(&each, 99)),
            seen_by_all_ms_p50: ms(percentile(&whole, 50)),
            seen_by_all_ms_p99: ms(percentile(&whole, 99)),
            seen_by_all_ms_max: ms(whole.last().copied().unwrap_or_default()),
            connect_s,
        })
    }

    /// One more listener, which is told one thing to begin with: that the stream is open, or the newest event.
    async fn listen(&self, path: &str) -> Result<Socket, String> {
        let events = self.engine.inspect(&self.run).await.map_err(told)?.record.events;
        let from = if path == "/stream" { String::new() } else { before(events) };
        let address = format!("ws://{}/api/v1{path}{from}", self.at);
        let mut request = address.into_client_request().map_err(told)?;
        let text = ShownKey::write(&tenant()?, &key_id()?, SECRET);
        request.headers_mut().insert("authorization", format!("Bearer {text}").parse().map_err(told)?);
        let stream = TcpStream::connect(self.at).await.map_err(told)?;
        let (socket, _) = client_async(request, stream).await.map_err(told)?;
        Ok(socket)
    }

    /// Something happens, in one event.
    async fn happen(&self, number: u32) -> Result<(), String> {
        let by = Initiator::new(Cause::User, "bench");
        if number.is_multiple_of(2) {
            self.engine.pause(&self.run, &by, "").await.map(|_| ()).map_err(told)
        } else {
            self.engine.resume(&self.run, &by, "").await.map_err(told)
        }
    }
}

/// Asks for the newest of so many events.
fn before(events: u32) -> String {
    match events.checked_sub(2) {
        Some(last) => format!("?last_event_id={last}"),
        None => String::new(),
    }
}

/// Reads for ever, and tells when.
async fn read(mut socket: Socket, seen: mpsc::UnboundedSender<Sight>) {
    loop {
        let sight = match socket.next().await {
            Some(Ok(Message::Text(_))) => Ok(Instant::now()),
            Some(Ok(Message::Ping(_))) => continue,
            other => Err(format!("a listener was let go: {other:?}")),
        };
        let is_over = sight.is_err();
        if seen.send(sight).is_err() || is_over {
            return;
        }
    }
}

/// When each of so many listeners read its next event. All read this one before the next happens.
async fn all(sights: &mut mpsc::UnboundedReceiver<Sight>, listeners: u32) -> Result<Vec<Instant>, String> {
    let mut seen = Vec::new();
    while seen.len() < usize::try_from(listeners).unwrap_or(usize::MAX) {
        let sight = tokio::time::timeout(PATIENCE, sights.recv()).await;
        let missing = || format!("{} of {listeners} listeners saw an event", seen.len());
        seen.push(sight.ok().flatten().ok_or_else(missing)??);
    }
    Ok(seen)
}

fn key_id() -> Result<KeyId, String> {
    "00ff".parse().map_err(told)
}

fn key() -> Result<ApiKey, String> {
    let (tenant, id) = (tenant()?, key_id()?);
    Ok(ApiKey {
        secret: secret_digest(&tenant, &id, SECRET),
        tenant,
        id,
        person: "bench".parse().map_err(told)?,
        roles: Roles::from_iter([Role::Viewer]),
        note: String::new(),
        created_at: Timestamp(0),
        expires_at: None,
        revoked_at: None,
        revision: 0,
    })
}

fn wish() -> Result<StartRun, String> {
    Ok(StartRun {
        tenant: tenant()?,
        workspace: WorkspaceId::new("main").map_err(told)?,
        plan: plan(1)?,
        trigger_kind: "bench".to_owned(),
        record: None,
        key: IdempotencyKey::new("bench:stream").map_err(told)?,
        input: json!({}),
        by: Initiator::new(Cause::System, "bench"),
    })
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
