//! A server, an engine and a worker on an in-memory store, with two tenants.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use countersign_api::stream::{StreamSettings, Streams};
use countersign_api::{Api, Authenticator, CursorSecret, router};
use domain::{ApiKey, Role, RunKey, RunStatus};
use engine::Engine;
use store::{Access as _, SqliteStore};
use testkit::TestEnv;
pub(crate) use testkit::{eventually, eventually_some};
use tokio::net::TcpSocket;
use worker::{CancellationToken, Worker, WorkerSettings};

/// The smallest buffer that the kernel allows, so that a slow listener is noticed after a few kilobytes.
const SEND_BYTES: u32 = 4 * 1024;

/// A test that waits longer has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct StreamEnv {
    env: TestEnv,
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

impl Deref for StreamEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl StreamEnv {
    pub(crate) async fn open(settings: StreamSettings) -> Self {
        let env = testkit::engine().standard_tools().env();
        let shutdown = CancellationToken::new();
        let worker = Worker::new(
            Arc::clone(&env.engine),
            WorkerSettings::default(),
            "w".parse().unwrap(),
            shutdown.clone(),
        );
        tokio::spawn(worker.run());
        let streams = Streams::new(settings);
        let at = serve(Arc::clone(&env.engine), streams.clone());
        for tenant in ["acme", "umbrella"] {
            env.put_key(tenant, "vera", &[Role::Viewer]).await;
        }
        Self { env, streams, at, _shutdown: shutdown }
    }

    pub(crate) async fn revoke_key(&self, tenant: &str) {
        let key = testkit::api_key(tenant, "vera", &[Role::Viewer]);
        let revoked = ApiKey { revision: 1, revoked_at: Some(self.engine.now()), ..key };
        assert_eq!(self.store().put_key(revoked).await.unwrap(), store::Write::Committed);
    }

    pub(crate) async fn start(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        self.start_for(tenant, &format!("workflow: w\nversion: 1\nsteps:\n{steps}"), key).await
    }

    /// Starts a run and waits until it has succeeded.
    pub(crate) async fn run(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let run = self.start(tenant, key, steps).await;
        self.until(&run, RunStatus::Succeeded).await;
        run
    }

    pub(crate) async fn until(&self, run: &RunKey, status: RunStatus) {
        eventually(async || self.status(run).await == status).await;
    }

    pub(crate) async fn approve(&self, run: &RunKey) {
        self.env.approve(run, "grace").await.unwrap();
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
