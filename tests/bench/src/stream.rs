//! `bench stream`: the time until every listener has an event.
//!
//! The real server with its default settings and all listeners run on one machine in one process, so both ends share the
//! cores. The measurement starts before the event is committed and ends when a listener has read it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::stream::Streams;
use api::{Api, Authenticator, CursorSecret};
use domain::{ApiKey, Cause, IdempotencyKey, Initiator, Role, RunKey, WorkspaceId};
use engine::{Engine, StartRun};
use futures_util::StreamExt as _;
use serde::Serialize;
use serde_json::json;
use store::{Access as _, SqliteOptions, SqliteStore};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::bench::{plan, tenant};
use crate::machine;
use crate::noop::Noop;
use crate::report::{ms, percentile};

/// The limit: every listener has an event within a second.
const LATENCY_MAX: Duration = Duration::from_secs(1);

/// Longer than any event takes that is not lost.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// The server polls; this interval spreads the events over its poll interval.
const APART: Duration = Duration::from_millis(310);

/// Open files in addition to two for each listener: the store, the server and the process itself.
const FILES_BESIDE: u64 = 100;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) listeners: u32,
    pub(crate) events: u32,
}

#[derive(Debug, Serialize)]
struct Report {
    listeners: u32,
    events: u32,
    /// All listeners follow the tenant.
    tenant: Latency,
    /// All listeners follow one run.
    run: Latency,
    cpu_s: f64,
    peak_mib: f64,
}

/// The time until an event is read.
#[derive(Debug, Serialize)]
struct Latency {
    /// By one listener.
    seen_ms_p50: f64,
    seen_ms_p99: f64,
    /// By all listeners.
    seen_by_all_ms_p50: f64,
    seen_by_all_ms_p99: f64,
    seen_by_all_ms_max: f64,
    connect_s: f64,
}

pub(crate) async fn run(load: Load, as_json: bool) -> Result<(), String> {
    let files = machine::allow_files(u64::from(load.listeners) * 2 + FILES_BESIDE)?;
    eprintln!("stream: {} listeners, {} events; up to {files} open files …", load.listeners, load.events);
    let env = StreamBench::open().await?;
    let cpu = machine::cpu_s();
    let tenant = env.measure(load, "/stream").await?;
    let run = env.measure(load, &format!("/runs/{}/stream", env.run.run)).await?;
    let report = Report {
        listeners: load.listeners,
        events: load.events,
        tenant,
        run,
        cpu_s: machine::cpu_s() - cpu,
        peak_mib: machine::peak_mib(),
    };
    let text = if as_json { serde_json::to_string(&report) } else { serde_json::to_string_pretty(&report) };
    println!("{}", text.map_err(to_text)?);
    let slowest = report.tenant.seen_by_all_ms_p99.max(report.run.seen_by_all_ms_p99);
    if slowest >= ms(LATENCY_MAX) {
        return Err(format!(
            "all listeners had an event after {slowest} ms at p99; the limit is {} ms",
            ms(LATENCY_MAX)
        ));
    }
    Ok(())
}

struct StreamBench {
    engine: Arc<Engine<SqliteStore>>,
    run: RunKey,
    at: SocketAddr,
    _dir: TempDir,
}

type Socket = WebSocketStream<TcpStream>;

/// A listener has read its next event.
type ReadResult = Result<Instant, String>;

impl StreamBench {
    async fn open() -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(to_text)?;
        let store =
            SqliteStore::open(dir.path().join("bench.db"), SqliteOptions::default()).map_err(to_text)?;
        let engine = Arc::new(testkit::engine().tool(Noop).me("bench").on(store));
        engine.store().put_key(key()).await.map_err(to_text)?;
        let run = engine.admission().start(start_command()?).await.map_err(to_text)?.run;
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(to_text)?;
        let at = listener.local_addr().map_err(to_text)?;
        let api = Api::new(Authenticator::new(Arc::clone(&engine)), CursorSecret::new([7; 32]))
            .with_streams(Streams::default());
        let app = api::router(Arc::new(api));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { engine, run, at, _dir: dir })
    }

    async fn measure(&self, load: Load, path: &str) -> Result<Latency, String> {
        let connecting = Instant::now();
        let (seen, mut reads) = mpsc::unbounded_channel();
        let mut listeners = Vec::new();
        for _ in 0..load.listeners {
            let socket = self.listen(path).await?;
            listeners.push(tokio::spawn(read(socket, seen.clone())));
        }
        drop(seen);
        let connect_s = connecting.elapsed().as_secs_f64();
        // The first message of each listener, which precedes the measured events.
        all(&mut reads, load.listeners).await?;
        let (mut each, mut whole) = (Vec::new(), Vec::new());
        for number in 0..load.events {
            tokio::time::sleep(APART).await;
            let began = Instant::now();
            self.commit_event(number).await?;
            let seen = all(&mut reads, load.listeners).await?;
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

    /// Connects a listener. It first gets one message: that the stream is open, or the newest event.
    async fn listen(&self, path: &str) -> Result<Socket, String> {
        let events = self.engine.operations().inspect(&self.run).await.map_err(to_text)?.record.events;
        let from = if path == "/stream" { String::new() } else { before(events) };
        let address = format!("ws://{}/api/v1{path}{from}", self.at);
        let mut request = address.into_client_request().map_err(to_text)?;
        let text = testkit::key_text(&key());
        request.headers_mut().insert("authorization", format!("Bearer {text}").parse().map_err(to_text)?);
        let stream = TcpStream::connect(self.at).await.map_err(to_text)?;
        let (socket, _) = client_async(request, stream).await.map_err(to_text)?;
        Ok(socket)
    }

    /// Commits one event.
    async fn commit_event(&self, number: u32) -> Result<(), String> {
        let by = Initiator::new(Cause::User, "bench");
        if number.is_multiple_of(2) {
            self.engine
                .tenant_handle(&self.run.tenant, &by)
                .pause(&self.run.run, "")
                .await
                .map(|_| ())
                .map_err(to_text)
        } else {
            self.engine.tenant_handle(&self.run.tenant, &by).resume(&self.run.run, "").await.map_err(to_text)
        }
    }
}

/// The query for the newest of `events` events.
fn before(events: u32) -> String {
    match events.checked_sub(2) {
        Some(last) => format!("?last_event_id={last}"),
        None => String::new(),
    }
}

/// Reads until the connection closes, and reports the time of each event.
async fn read(mut socket: Socket, seen: mpsc::UnboundedSender<ReadResult>) {
    loop {
        let read_result = match socket.next().await {
            Some(Ok(Message::Text(_))) => Ok(Instant::now()),
            Some(Ok(Message::Ping(_))) => continue,
            other => Err(format!("a listener was disconnected: {other:?}")),
        };
        let is_over = read_result.is_err();
        if seen.send(read_result).is_err() || is_over {
            return;
        }
    }
}

/// The time at which each listener read its next event. All read one event before the next is committed.
async fn all(
    reads: &mut mpsc::UnboundedReceiver<ReadResult>,
    listeners: u32,
) -> Result<Vec<Instant>, String> {
    let mut seen = Vec::new();
    while seen.len() < usize::try_from(listeners).unwrap_or(usize::MAX) {
        let read_result = tokio::time::timeout(EVENT_TIMEOUT, reads.recv()).await;
        let missing = || format!("only {} of {listeners} listeners got the event", seen.len());
        seen.push(read_result.ok().flatten().ok_or_else(missing)??);
    }
    Ok(seen)
}

fn key() -> ApiKey {
    testkit::api_key("bench", "bench", &[Role::Viewer])
}

fn start_command() -> Result<StartRun, String> {
    Ok(StartRun {
        tenant: tenant()?,
        workspace: WorkspaceId::new("main").map_err(to_text)?,
        plan: plan(1)?,
        trigger_kind: "bench".to_owned(),
        record: None,
        key: IdempotencyKey::new("bench:stream").map_err(to_text)?,
        input: json!({}),
        by: Initiator::new(Cause::System, "bench"),
        applied_by: None,
        inherited: domain::Inherited::default(),
    })
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
