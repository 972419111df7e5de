//! The test environment.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Api, Authenticator, CursorSecret};
use api_types::{PreviousSecret, SecretName};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use connectors::{OperatorConnections, TenantConnections};
use domain::access::{PresentedKey, secret_digest};
use domain::connection::ConnectionOptions;
use domain::plan::Environment;
use domain::{
    Cause, Connection, ConnectionKind, Initiator, KeyId, PersonId, Role, Roles, RunId, RunKey, TenantId,
};
use engine::{ConnectionParts, Engine, NewApiKey, StartRun, TenantHandle};
use serde_json::Value;
use store::SqliteStore;
use testkit::TestClock;
use tower::ServiceExt as _;

use crate::reply::Reply;

/// The users of each tenant, by role.
const PEOPLE: [(&str, Role); 4] =
    [("vera", Role::Viewer), ("olga", Role::Operator), ("anna", Role::Approver), ("adam", Role::Admin)];

const PLAIN: &str = "
workflow: plain
version: 1
steps:
  - { id: shape, tool: transform, with: { value: done } }
";

const ASKS: &str = "
workflow: asks
version: 1
steps:
  - { id: ask, tool: approval.gate, with: { message: Go on?, on_reject: pause } }
  - { id: shape, tool: transform, with: { value: done } }
";

const WAITS: &str = "
workflow: waits
version: 1
steps:
  - { id: news, tool: wait.event, with: { event: news.came, timeout: 2h } }
";

/// The runs of a tenant, by state.
#[derive(Debug, Clone)]
pub struct Runs {
    /// Finished, with evidence.
    pub finished: RunId,
    /// Waits for approval.
    pub asking: RunId,
    /// The approval that `asking` waits for.
    pub approval: String,
    /// Waits for an event.
    pub waiting: RunId,
    /// Paused by an operator.
    pub paused: RunId,
}

/// A tenant with its API keys and runs.
#[derive(Debug, Clone)]
pub struct TestTenant {
    pub tenant: TenantId,
    keys: BTreeMap<Role, (KeyId, String)>,
    pub runs: Runs,
}

impl TestTenant {
    /// The text of the API key with this role.
    pub fn key(&self, role: Role) -> &str {
        &self.keys[&role].1
    }

    /// The id of the API key with this role.
    pub fn key_id(&self, role: Role) -> &KeyId {
        &self.keys[&role].0
    }
}

/// A server with two tenants.
pub struct TestEnv {
    pub clock: TestClock,
    pub engine: Arc<Engine<SqliteStore>>,
    pub router: Router,
    pub acme: TestTenant,
    pub umbrella: TestTenant,
}

impl TestEnv {
    pub async fn new() -> Self {
        Self::with(|gate| gate).await
    }

    /// `change` configures the authentication.
    pub async fn with(change: impl FnOnce(Authenticator<SqliteStore>) -> Authenticator<SqliteStore>) -> Self {
        let public = testkit::signing_key().public();
        let clock = TestClock::system();
        let builder = testkit::engine().standard_tools().connections(connections());
        let engine = Arc::new(builder.clock(clock.clone()).signed().build());
        let (acme, umbrella) =
            (create_tenant(&engine, "acme").await, create_tenant(&engine, "umbrella").await);
        let gate = change(Authenticator::new(Arc::clone(&engine)));
        let api = Api::new(gate, CursorSecret::new([3; 32]))
            .with_trusted_keys(public.into())
            .with_secret_names(secrets());
        Self { clock, router: api::router(Arc::new(api)), engine, acme, umbrella }
    }

    pub async fn send(&self, request: Request<Body>) -> Reply {
        Reply::of(self.router.clone().oneshot(request).await.unwrap()).await
    }

    pub async fn get(&self, key: &str, path: &str) -> Reply {
        self.send(request(&Method::GET, key, path).body(Body::empty()).unwrap()).await
    }

    pub async fn post(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.json(&Method::POST, key, path, body).await
    }

    pub async fn json(&self, method: &Method, key: &str, path: &str, body: &Value) -> Reply {
        let request = request(method, key, path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Advances a run until it waits.
    pub async fn advance(&self, tenant: &TestTenant, run: &RunId) {
        advance(&self.engine, &RunKey { tenant: tenant.tenant.clone(), run: run.clone() }).await;
    }

    /// The tenant handle of a user.
    pub fn handle(&self, tenant: &TestTenant, person: &str) -> TenantHandle<SqliteStore> {
        self.engine.tenant_handle(&tenant.tenant, &Initiator::new(Cause::User, person))
    }
}

/// Each tenant has a connection that the operator configured.
fn connections() -> ConnectionParts {
    let connection = Connection {
        kind: ConnectionKind::ServiceNow,
        base_url: "https://instance.example".to_owned(),
        environment: Environment::Dev,
        credential: None,
        workspace: None,
        options: ConnectionOptions::default(),
        version: 0,
    };
    let of_tenant = |tenant: &str| {
        let connections = [(format!("sn-{tenant}").parse().unwrap(), connection.clone())].into();
        (tenant.parse().unwrap(), TenantConnections { connections, ..TenantConnections::default() })
    };
    let tenants = ["acme", "umbrella"].map(of_tenant).into();
    let operator = OperatorConnections { tenants, ..OperatorConnections::default() };
    ConnectionParts { operator: Arc::new(operator), is_complete: true, ..ConnectionParts::default() }
}

fn request(method: &Method, key: &str, path: &str) -> axum::http::request::Builder {
    let request = Request::builder().method(method.clone()).uri(format!("{}{path}", api_types::PREFIX));
    if key.is_empty() { request } else { request.header("authorization", format!("Bearer {key}")) }
}

async fn create_tenant(engine: &Arc<Engine<SqliteStore>>, tenant: &str) -> TestTenant {
    let tenant: TenantId = tenant.parse().unwrap();
    let mut keys = BTreeMap::new();
    for (number, (person, role)) in PEOPLE.into_iter().enumerate() {
        keys.insert(role, make_key(engine, &tenant, (number, person), role).await);
    }
    let handle = engine.tenant_handle(&tenant, &Initiator::new(Cause::User, "adam"));
    // A workflow that the other tenant does not have.
    let only = PLAIN.replace("plain", &format!("only-{tenant}"));
    for source in [PLAIN, ASKS, WAITS, &only] {
        handle.apply(&workflow::parse_for(source, &handle.tools()).unwrap()).await.unwrap();
    }
    let run = async |source, key| started(engine, &tenant, source, key).await;
    let runs = Runs {
        finished: run(PLAIN, "finished").await,
        asking: run(ASKS, "asking").await,
        waiting: run(WAITS, "waiting").await,
        paused: run(WAITS, "paused").await,
        approval: String::new(),
    };
    for run in [&runs.finished, &runs.asking, &runs.waiting] {
        advance(engine, &RunKey { tenant: tenant.clone(), run: run.clone() }).await;
    }
    engine
        .operations()
        .build_evidence(&RunKey { tenant: tenant.clone(), run: runs.finished.clone() })
        .await
        .unwrap();
    handle.pause(&runs.paused, "to inspect it").await.unwrap();
    let open = handle.open_approvals(None, 10).await.unwrap().approvals;
    let approval = open.first().expect("a run waits for approval").id.to_string();
    TestTenant { tenant, keys, runs: Runs { approval, ..runs } }
}

async fn make_key(
    engine: &Engine<SqliteStore>,
    tenant: &TenantId,
    (number, person): (usize, &str),
    role: Role,
) -> (KeyId, String) {
    // Key ids are unique across tenants.
    let id: KeyId = format!("{number:02x}{:02x}", tenant.as_str().len()).parse().unwrap();
    let secret = format!("{number:064x}");
    let new = NewApiKey {
        secret: secret_digest(tenant, &id, &secret),
        id: id.clone(),
        person: PersonId::new(person).unwrap(),
        roles: Roles::from_iter([role]),
        note: String::new(),
        expires_in: None,
    };
    engine.tenant_handle(tenant, &Initiator::new(Cause::User, person)).make_key(new).await.unwrap();
    (id.clone(), PresentedKey::format(tenant, &id, &secret))
}

async fn started(engine: &Engine<SqliteStore>, tenant: &TenantId, source: &str, key: &str) -> RunId {
    let request = StartRun {
        tenant: tenant.clone(),
        workspace: "default".parse().unwrap(),
        trigger_kind: "api".to_owned(),
        by: Initiator::new(Cause::User, "olga"),
        ..testkit::request(engine, source, &format!("{tenant}-{key}"))
    };
    engine.admission().start(request).await.unwrap().run.run
}

async fn advance(engine: &Engine<SqliteStore>, run: &RunKey) {
    testkit::advance(engine, run).await;
}

/// The secret name of ServiceNow for one tenant; the other tenant has none.
fn secrets() -> [(TenantId, SecretName); 1] {
    let previous = PreviousSecret { id: "ACME_OLD".to_owned(), until: "2030-01-01T00:00:00.000Z".to_owned() };
    let secret = SecretName {
        source: "servicenow".to_owned(),
        scheme: "hmac".to_owned(),
        id: "ACME_NEW".to_owned(),
        previous: Some(previous),
    };
    [(TenantId::new("acme").unwrap(), secret)]
}
