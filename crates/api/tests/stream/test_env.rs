//! A server, an engine and a worker on an in-memory store, with two tenants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use connectors::{ConnectorSettings, HostAllowList};
use countersign_api::stream::{StreamSettings, Streams};
use countersign_api::{Api, Authenticator, CursorSecret, router};
use domain::access::{PresentedKey, secret_digest};
use domain::{
    ApiKey, ApprovalId, Cause, Channel, Initiator, KeyId, Role, Roles, RunKey, RunStatus, TenantId, Timestamp,
};
use engine::{Engine, EngineParts, StartRun, Timing, VoteRequest};
use serde_json::json;
use store::{Access as _, Governance as _, Ledger as _, SqliteOptions, SqliteStore, SystemClock};
use tokio::net::TcpSocket;
use worker::{CancellationToken, Worker, WorkerSettings};

const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

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
        let engine = Arc::new(Engine::new(EngineParts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: connectors::standard_tools(HostAllowList::default(), ConnectorSettings::default()),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            notifier: None,
            evidence_signer: None,
        }));
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
        let (tenant, id): (TenantId, KeyId) = (tenant.parse().unwrap(), "00ff".parse().unwrap());
        let key = ApiKey {
            secret: secret_digest(&tenant, &id, SECRET),
            tenant,
            id,
            person: "vera".parse().unwrap(),
            roles: Roles::from_iter([Role::Viewer]),
            note: String::new(),
            created_at: Timestamp(0),
            expires_at: None,
            revoked_at,
            revision,
        };
        assert_eq!(self.engine.store().put_key(key).await.unwrap(), store::Write::Committed);
    }

    pub(crate) async fn revoke_key(&self, tenant: &str) {
        self.put_key(tenant, 1, Some(self.engine.now())).await;
    }

    pub(crate) async fn start(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let names = self.engine.tools().names().cloned().collect();
        let request = StartRun {
            tenant: tenant.parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: workflow::parse(&format!("workflow: w\nversion: 1\nsteps:\n{steps}"), &names).unwrap(),
            trigger_kind: "test".to_owned(),
            record: None,
            key: key.parse().unwrap(),
            input: json!({}),
            by: Initiator::new(Cause::User, "ada"),
        };
        self.engine.admission().start(request).await.unwrap().run
    }

    /// Starts a run and waits until it has succeeded.
    pub(crate) async fn run(&self, tenant: &str, key: &str, steps: &str) -> RunKey {
        let run = self.start(tenant, key, steps).await;
        self.until(&run, RunStatus::Succeeded).await;
        run
    }

    pub(crate) async fn until(&self, run: &RunKey, status: RunStatus) {
        eventually(async || self.engine.store().load(run).await.unwrap().unwrap().status == status).await;
    }

    pub(crate) async fn approve(&self, run: &RunKey) {
        let approval = self.engine.store().approvals(run).await.unwrap().pop().unwrap();
        self.decide(run, approval.id, approval.subject.hash()).await;
    }

    async fn decide(&self, run: &RunKey, approval: ApprovalId, subject: domain::Digest) {
        let reply = VoteRequest {
            approval,
            subject: Some(subject),
            person: "grace".parse().unwrap(),
            approve: true,
            reason: String::new(),
            through: Channel::CommandLine,
        };
        Box::pin(self.engine.governance().answer(&run.tenant, reply)).await.unwrap();
    }
}

/// Waits until the condition holds.
pub(crate) async fn eventually(is_so: impl AsyncFn() -> bool) {
    eventually_some(async || is_so().await.then_some(())).await;
}

/// Waits until there is a value.
pub(crate) async fn eventually_some<T>(found: impl AsyncFn() -> Option<T>) -> T {
    let waits = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waits).await.unwrap()
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
    PresentedKey::format(&tenant.parse().unwrap(), &"00ff".parse().unwrap(), SECRET)
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
