//! A server with two tenants.

use std::collections::BTreeMap;
use std::ops::Deref;
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
use engine::{ConnectionParts, NewApiKey, StartRun, TenantHandle};
use serde_json::Value;
use store::SqliteStore;
use testkit::TestEnv;
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
    /// The number of an audit entry that no other tenant has.
    pub audit_entry: u64,
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

/// The API, and an engine with two tenants.
pub struct ContractEnv {
    env: TestEnv,
    pub router: Router,
    pub acme: TestTenant,
    pub umbrella: TestTenant,
}

impl Deref for ContractEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl ContractEnv {
    pub async fn new() -> Self {
        Self::with(|gate| gate).await
    }

    /// `change` configures the authentication.
    pub async fn with(change: impl FnOnce(Authenticator<SqliteStore>) -> Authenticator<SqliteStore>) -> Self {
        let public = testkit::signing_key().public();
        let env = testkit::engine().standard_tools().connections(connections()).signed().env();
        let acme = create_tenant(&env, "acme").await;
        let umbrella = with_longer_audit_log(&env, create_tenant(&env, "umbrella").await).await;
        let gate = change(Authenticator::new(Arc::clone(&env.engine)));
        let api = Api::new(gate, CursorSecret::new([3; 32]))
            .with_trusted_keys(public.into())
            .with_secret_names(secrets());
        Self { env, router: api::router(Arc::new(api)), acme, umbrella }
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
        self.env.advance(&RunKey { tenant: tenant.tenant.clone(), run: run.clone() }).await;
    }

    /// The tenant handle of a user.
    pub fn handle(&self, tenant: &TestTenant, person: &str) -> TenantHandle<SqliteStore> {
        self.handle_of(tenant.tenant.as_str(), person)
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

/// Entries have the same numbers in every tenant, so the newest entry of this one is one that the other does not have.
async fn with_longer_audit_log(env: &TestEnv, tenant: TestTenant) -> TestTenant {
    for number in 90..93 {
        make_key(env, tenant.tenant.as_str(), (number, "vera"), Role::Viewer).await;
    }
    let handle = env.handle_of(tenant.tenant.as_str(), "adam");
    TestTenant { audit_entry: handle.audit_head().await.unwrap().sequence, ..tenant }
}

async fn create_tenant(env: &TestEnv, tenant: &str) -> TestTenant {
    let mut keys = BTreeMap::new();
    for (number, (person, role)) in PEOPLE.into_iter().enumerate() {
        keys.insert(role, make_key(env, tenant, (number, person), role).await);
    }
    let handle = env.handle_of(tenant, "adam");
    // A workflow that the other tenant does not have.
    let only = PLAIN.replace("plain", &format!("only-{tenant}"));
    for source in [PLAIN, ASKS, WAITS, &only] {
        handle.apply(&testkit::plan(&env.engine, source)).await.unwrap();
    }
    let run = async |source, key| start(env, tenant, source, key).await;
    let (finished, asking) = (run(PLAIN, "finished").await, run(ASKS, "asking").await);
    let (waiting, paused) = (run(WAITS, "waiting").await, run(WAITS, "paused").await);
    for run in [&finished, &asking, &waiting] {
        env.advance(run).await;
    }
    env.engine.operations().build_evidence(&finished).await.unwrap();
    handle.pause(&paused.run, "to inspect it").await.unwrap();
    let approval = env.approval(&asking).await.id.to_string();
    let (finished, asking, waiting, paused) = (finished.run, asking.run, waiting.run, paused.run);
    let runs = Runs { finished, asking, approval, waiting, paused };
    let audit_entry = handle.audit_head().await.unwrap().sequence;
    TestTenant { tenant: tenant.parse().unwrap(), keys, runs, audit_entry }
}

async fn make_key(
    env: &TestEnv,
    tenant: &str,
    (number, person): (usize, &str),
    role: Role,
) -> (KeyId, String) {
    // Key ids are unique across tenants.
    let id: KeyId = format!("{number:02x}{:02x}", tenant.len()).parse().unwrap();
    let (owner, secret) = (tenant.parse().unwrap(), format!("{number:064x}"));
    let new = NewApiKey {
        secret: secret_digest(&owner, &id, &secret),
        id: id.clone(),
        person: PersonId::new(person).unwrap(),
        roles: Roles::from_iter([role]),
        note: String::new(),
        expires_in: None,
    };
    env.handle_of(tenant, person).make_key(new).await.unwrap();
    (id.clone(), PresentedKey::format(&owner, &id, &secret))
}

async fn start(env: &TestEnv, tenant: &str, source: &str, key: &str) -> RunKey {
    let request = StartRun {
        tenant: tenant.parse().unwrap(),
        workspace: "default".parse().unwrap(),
        trigger_kind: "api".to_owned(),
        by: Initiator::new(Cause::User, "olga"),
        ..env.request(source, &format!("{tenant}-{key}"))
    };
    env.start_as(request).await
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
