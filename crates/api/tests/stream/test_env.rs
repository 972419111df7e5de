//! A server, an engine and a worker on an in-memory store, with two tenants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use countersign_api::stream::{StreamSettings, Streams};
use countersign_api::{Api, Authenticator, CursorSecret, router};
use domain::{ApiKey, Role, RunKey, RunStatus, Timestamp};
use engine::{Engine, StartRun};
use store::{Access as _, SqliteStore};
pub(crate) use testkit::{eventually, eventually_some};
use tokio::net::TcpSocket;
use worker::{CancellationToken, Worker, WorkerSettings};

/// The smallest buffer that the kernel allows, so that a slow listener is noticed after a few kilobytes.
const SEND_BYTES: u32 = 4 * 1024;

/// A test that waits longer has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct TestEnv {
    pub(crate) engine: Arc<Engine<SqliteStore>>,
    pub(crate) streams: Streams,
    pub(crate) at: SocketAddr,
    _shutdown: CancellationToken,
}

/// A server that polls often.
pub(crate) fn quick() -> StreamSettings {
    StreamSettings { poll_every: Duration::from_millis(25), ..StreamSettings::default() }
}

/// A server that polls only after a nudge.
pub(crate) fn nudged_only() -> StreamSettings {
    StreamSettings { poll_every: Duration::from_hours(1), ..StreamSettings::default() }
}

impl TestEnv {
    pub(crate) async fn open(settings: StreamSettings) -> Self {
        let engine = Arc::new(testkit::engine().standard_tools().build());
        let shutdown = CancellationToken::new();
        let worker = Worker::new(
            Arc::clone(&engine),
            WorkerSettings::default(),
            "w".parse().unwrap(),
            shutdown.clone(),
        );
        tokio::spawn(worker.run());
        let streams = Streams::new(settings);
        let at = serve(Arc::clone(&engine), streams.clone());
        let env = Self { engine, streams, at, _shutdown: shutdown };
        for tenant in ["acme", "umbrella"] {
            env.put_key(tenant, 0, None).await;
        }
        env
    }

    async fn put_key(&self, tenant: &str, revision: u32, revoked_at: Option<Timestamp>) {
        let key = ApiKey { revision, revoked_at, ..testkit::api_key(tenant, "vera", &[Role::Viewer]) };
        assert_eq!(self.engine.store().put_key(key).await.unwrap(), store::Write::Committed);
    }

    pub(crate) async fn revoke_key(&self, tenant: &str) {
        self.put_key(tenant, 1, Some(self.engine.now())).await;
    }

    pub(crate) async fn start(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let source = format!(
            "workflow: w
version: 1
steps:
{steps}"
        );
        let tenant = tenant.parse().unwrap();
        let request = StartRun { tenant, ..testkit::request(&self.engine, &source, key) };
        self.engine.admission().start(request).await.unwrap().run
    }

    /// Starts a run and waits until it has succeeded.
    pub(crate) async fn run(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let run = self.start(tenant, key, steps).await;
        self.until(&run, RunStatus::Succeeded).await;
        run
    }

    pub(crate) async fn until(&self, run: &RunKey, status: RunStatus) {
        eventually(async || testkit::status(&self.engine, run).await == status).await;
    }

    pub(crate) async fn approve(&self, run: &RunKey) {
        testkit::approve(&self.engine, run, "grace").await.unwrap();
    }
}

/// Steps without effects.
pub(crate) fn steps(count: usize) -> String {
    let step = |n| format!("  - {{ id: s{n}, tool: transform, with: {{ value: {n} }} }}\n");
    (0..count).map(step).collect::<Vec<_>>().concat()
}

/// A step that waits for approval.
pub(crate) fn gate(id: &str) -> String {
    format!("  - {{ id: {id}, tool: approval.gate, with: {{ message: 'Go on?' }} }}\n")
}

pub(crate) fn key_of(tenant: &str) -> String {
    testkit::key_text(&testkit::api_key(tenant, "vera", &[Role::Viewer]))
}

fn serve(engine: Arc<Engine<SqliteStore>>, streams: Streams) -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(SEND_BYTES).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(128).unwrap();
    let at = listener.local_addr().unwrap();
    let app = router(Arc::new(
        Api::new(Authenticator::new(engine), CursorSecret::new([7; 32])).with_streams(streams),
    ));
    tokio::spawn(async move { axum::serve(listener, app).await });
    at
}
