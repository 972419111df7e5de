//! The house.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use api::{Api, CursorSecret, Gate};
use api_types::{PreviousSecret, SecretName};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use domain::access::{ShownKey, secret_digest};
use domain::{Cause, Initiator, KeyId, Millis, PersonId, Role, Roles, RunId, RunKey, TenantId, Timestamp};
use engine::{AdvanceLimits, Engine, NewKey, Parts, Sealing, StartRun, TenantHandle, Timing};
use evidence::SigningKey;
use serde_json::{Value, json};
use store::{Clock, SqliteOptions, SqliteStore, SystemClock};
use tower::ServiceExt as _;

use crate::reply::Reply;

/// Who is in each tenant, by role.
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

/// The runs of a tenant, by how they stand.
#[derive(Debug, Clone)]
pub struct Runs {
    /// It is over, and its evidence is there.
    pub finished: RunId,
    /// It asks people.
    pub asking: RunId,
    /// The request that it waits for.
    pub approval: String,
    /// It waits for an event.
    pub waiting: RunId,
    /// It was paused by an operator.
    pub paused: RunId,
}

/// What is known of a tenant.
#[derive(Debug, Clone)]
pub struct Told {
    /// Which tenant.
    pub tenant: TenantId,
    /// The key of each role.
    keys: BTreeMap<Role, (KeyId, String)>,
    /// Its runs.
    pub runs: Runs,
}

impl Told {
    /// The text of the key with this role.
    pub fn key(&self, role: Role) -> &str {
        &self.keys[&role].1
    }

    /// The id of the key with this role.
    pub fn key_id(&self, role: Role) -> &KeyId {
        &self.keys[&role].0
    }
}

/// The clock of the house, which can be put forward.
#[derive(Default)]
pub struct Watch(AtomicI64);

impl Watch {
    /// Puts it forward.
    pub fn forward(&self, by: Millis) {
        self.0.fetch_add(i64::try_from(by.0).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Watch {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}

/// A house with two tenants.
pub struct House {
    /// Its clock.
    pub watch: Arc<Watch>,
    /// The runtime.
    pub engine: Arc<Engine<SqliteStore>>,
    /// The routes.
    pub router: Router,
    /// One tenant.
    pub acme: Told,
    /// The other one.
    pub umbrella: Told,
}

impl House {
    /// A house that is furnished.
    pub async fn new() -> Self {
        Self::with(|gate| gate).await
    }

    /// A house whose gate is changed before it opens.
    pub async fn with(change: impl FnOnce(Gate<SqliteStore>) -> Gate<SqliteStore>) -> Self {
        let key = SigningKey::from_seed([7; 32]);
        let public = key.public();
        let watch = Arc::new(Watch::default());
        let engine = Arc::new(Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: connectors::standard(connectors::Allow::default(), connectors::Settings::default()),
            clock: Arc::clone(&watch) as Arc<dyn Clock>,
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: Some(Sealing { key: Arc::new(key), origin: "countersign/contract".to_owned() }),
        }));
        let (acme, umbrella) = (furnish(&engine, "acme").await, furnish(&engine, "umbrella").await);
        let gate = change(Gate::new(Arc::clone(&engine)));
        let api = Api::new(gate, CursorSecret::new([3; 32])).verifying(public).naming(secrets());
        Self { watch, router: api::router(Arc::new(api)), engine, acme, umbrella }
    }

    /// Sends a request.
    pub async fn send(&self, request: Request<Body>) -> Reply {
        Reply::of(self.router.clone().oneshot(request).await.unwrap()).await
    }

    /// Asks for what is at `path`, in the name of whoever holds `key`.
    pub async fn get(&self, key: &str, path: &str) -> Reply {
        self.send(request(&Method::GET, key, path).body(Body::empty()).unwrap()).await
    }

    /// Posts `body`.
    pub async fn post(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.json(&Method::POST, key, path, body).await
    }

    /// Sends `body` as JSON.
    pub async fn json(&self, method: &Method, key: &str, path: &str, body: &Value) -> Reply {
        let request = request(method, key, path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Takes a run as far as it goes.
    pub async fn advance(&self, told: &Told, run: &RunId) {
        advance(&self.engine, &RunKey { tenant: told.tenant.clone(), run: run.clone() }).await;
    }

    /// The handle of somebody of a tenant.
    pub fn handle(&self, told: &Told, person: &str) -> TenantHandle<SqliteStore> {
        TenantHandle::open(Arc::clone(&self.engine), told.tenant.clone(), person.parse().unwrap())
    }
}

/// A request under `/api/v1`, with a key.
fn request(method: &Method, key: &str, path: &str) -> axum::http::request::Builder {
    let request = Request::builder().method(method.clone()).uri(format!("{}{path}", api_types::PREFIX));
    if key.is_empty() { request } else { request.header("authorization", format!("Bearer {key}")) }
}

async fn furnish(engine: &Arc<Engine<SqliteStore>>, tenant: &str) -> Told {
    let tenant: TenantId = tenant.parse().unwrap();
    let mut keys = BTreeMap::new();
    for (number, (person, role)) in PEOPLE.into_iter().enumerate() {
        keys.insert(role, make_key(engine, &tenant, (number, person), role).await);
    }
    let handle = TenantHandle::open(Arc::clone(engine), tenant.clone(), "adam".parse().unwrap());
    // One that the other tenant has not.
    let only = PLAIN.replace("plain", &format!("only-{tenant}"));
    for source in [PLAIN, ASKS, WAITS, &only] {
        handle.apply(&workflow::parse(source, &handle.tools()).unwrap()).await.unwrap();
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
    engine.seal(&RunKey { tenant: tenant.clone(), run: runs.finished.clone() }).await.unwrap();
    handle.pause(&runs.paused, "to look at it").await.unwrap();
    let asked = handle.open_approvals(None, 10).await.unwrap().approvals;
    let approval = asked.first().expect("a run asks").id.to_string();
    Told { tenant, keys, runs: Runs { approval, ..runs } }
}

async fn make_key(
    engine: &Engine<SqliteStore>,
    tenant: &TenantId,
    (number, person): (usize, &str),
    role: Role,
) -> (KeyId, String) {
    // Nobody else's: a key's name says nothing about whose it is.
    let id: KeyId = format!("{number:02x}{:02x}", tenant.as_str().len()).parse().unwrap();
    let secret = format!("{number:064x}");
    let new = NewKey {
        secret: secret_digest(tenant, &id, &secret),
        id: id.clone(),
        person: PersonId::new(person).unwrap(),
        roles: Roles::from_iter([role]),
        note: String::new(),
        expires_at: None,
    };
    engine.make_key(tenant, new).await.unwrap();
    (id.clone(), ShownKey::write(tenant, &id, &secret))
}

async fn started(engine: &Engine<SqliteStore>, tenant: &TenantId, source: &str, key: &str) -> RunId {
    let tools = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: tenant.clone(),
        workspace: "default".parse().unwrap(),
        plan: workflow::parse(source, &tools).unwrap(),
        trigger_kind: "api".to_owned(),
        record: None,
        key: format!("{tenant}-{key}").parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::User, "olga"),
    };
    engine.start(wish).await.unwrap().run.run
}

async fn advance(engine: &Engine<SqliteStore>, run: &RunKey) {
    Box::pin(engine.advance(run, &(), AdvanceLimits::default())).await.unwrap();
}

/// What ServiceNow proves itself with to one tenant; the other has nobody who delivers.
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
