//! The server under test, a worker, and fakes of the external systems.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::auth::login::Login;
use api::auth::session::{CookieSecurity, Sessions};
use api::{Api, Authenticator, CursorSecret};
use axum::Router;
use config::{ProcessContext, SystemsConfig};
use console::Console;
use domain::{ApprovalId, Cause, Initiator, Role, RunId, TenantId};
use engine::{Engine, TenantHandle};
use fakes::model::{self, Model, Recording};
use fakes::servicenow::{self, INCIDENT, ServiceNow};
use fakes::slack::{self, FakeSlack, User};
use serde_json::{Value, json};
use store::{Access as _, Clock as _, SqliteStore, SystemClock};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use worker::{CancellationToken, Worker, WorkerSettings};

use crate::http::request_with;

/// Reads an incident, asks a model for an assignment, and updates the incident after approval.
const TRIAGE: &str = include_str!("../../../crates/cli/src/dev/triage.yaml");

/// The recorded answer of the model.
const MODEL_ANSWER: &str =
    r#"{"group": "db-oncall", "urgency": "1", "confidence": 0.93, "because": "It is a database."}"#;

const SLACK_TOKEN: &str = "xoxb-fake";
const CHANNEL: &str = "C0APPROVALS";

/// A server with a worker. Both stop when this is dropped.
pub struct BrowserEnv {
    // In the order in which they stop.
    _shutdown: CancellationToken,
    url: String,
    engine: Arc<Engine<SqliteStore>>,
    _world: FakeSystems,
    runtime: Runtime,
}

struct FakeSystems {
    servicenow: ServiceNow,
    slack: FakeSlack,
    model: Model,
}

impl FakeSystems {
    async fn start() -> Self {
        let recording = Recording {
            input_tokens: 186,
            output_tokens: 41,
            ..Recording::new("Primary database does not answer", MODEL_ANSWER)
        };
        let settings = slack::FakeSlackSettings {
            token: SLACK_TOKEN.to_owned(),
            signing_secret: "0123456789abcdef0123456789abcdef".to_owned(),
            team: "T0SIM".to_owned(),
            channels: vec![CHANNEL.to_owned()],
            users: vec![User { id: "U0ADA".to_owned(), name: "ada".to_owned() }],
            shortcuts: Vec::new(),
            callback: None,
        };
        Self {
            servicenow: ServiceNow::start().await.unwrap(),
            slack: FakeSlack::start_with(settings).await.unwrap(),
            model: Model::start(vec![recording]).await.unwrap(),
        }
    }

    fn systems(&self) -> SystemsConfig {
        let text = format!(
            "connections:\n\
             \x20 - {{ name: servicenow, kind: servicenow, base_url: '{servicenow}', environment: dev,\n\
             \x20     credential: {{ type: basic, user: {user}, password: 'env://SERVICENOW' }} }}\n\
             \x20 - {{ name: simulated, kind: model, base_url: '{model}', environment: dev,\n\
             \x20     credential: {{ type: bearer, token: 'env://MODEL' }},\n\
             \x20     options: {{ model_api: bedrock, prices: {{ triage-1: {{ input: 3000000, output: 15000000 }} }} }} }}\n\
             \x20 - {{ name: slack, kind: slack, base_url: '{slack}/api', environment: dev,\n\
             \x20     credential: {{ type: bearer, token: 'env://SLACK' }}, options: {{ channel: {CHANNEL} }} }}\n",
            servicenow = self.servicenow.url(),
            user = servicenow::USER,
            model = self.model.url(),
            slack = self.slack.url(),
        );
        SystemsConfig::parse(&text).unwrap()
    }
}

fn credential(name: &str) -> Option<String> {
    let value = match name {
        "SERVICENOW" => servicenow::PASSWORD,
        "SLACK" => SLACK_TOKEN,
        "MODEL" => model::KEY,
        _ => return None,
    };
    Some(value.to_owned())
}

impl BrowserEnv {
    /// Starts a server, with the workflow applied for each of these tenants.
    pub fn new(tenants: &[&str]) -> Self {
        Self::with_login(tenants, async |_| None)
    }

    /// The same, with an identity provider. `login` gets the server's address.
    pub fn with_login(tenants: &[&str], login: impl AsyncFnOnce(&str) -> Option<Login>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (engine, systems, shutdown, url) = runtime.block_on(async {
            let systems = FakeSystems::start().await;
            let engine = Arc::new(engine(&systems));
            for tenant in tenants {
                apply(&engine, tenant).await;
            }
            let url = serve(&engine, testkit::signing_key().public(), login).await;
            let shutdown = CancellationToken::new();
            let settings = WorkerSettings { poll: Duration::from_secs(1), ..WorkerSettings::default() };
            let worker =
                Worker::new(Arc::clone(&engine), settings, "worker-a".parse().unwrap(), shutdown.clone());
            tokio::spawn(worker.run());
            (engine, systems, shutdown, url)
        });
        Self { _shutdown: shutdown, url, engine, _world: systems, runtime }
    }

    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn handle(&self, tenant: &str, person: &str) -> TenantHandle<SqliteStore> {
        let tenant = TenantId::new(tenant).unwrap();
        self.engine.tenant_handle(&tenant, &Initiator::new(Cause::User, person))
    }

    /// A new API key of `person`.
    pub fn key(&self, tenant: &str, person: &str, roles: &[Role]) -> String {
        let key = testkit::api_key(tenant, person, roles);
        self.wait(self.engine.store().put_key(key.clone())).unwrap();
        testkit::key_text(&key)
    }

    /// The input of a run.
    pub fn sample() -> Value {
        json!({ "incident": INCIDENT })
    }

    /// Starts a run with the API, as `person`.
    pub fn start(&self, tenant: &str, person: &str, key: &str) -> RunId {
        let bearer = format!("Bearer {}", self.key(tenant, person, &[Role::Operator]));
        let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", key)];
        let request = json!({ "workflow": "triage-incident", "input": Self::sample() });
        let address = self.url.trim_start_matches("http://");
        let started = request_with(address, "POST", "/api/v1/runs", &headers, Some(&request)).unwrap();
        RunId::new(started["run"].as_str().unwrap_or_else(|| panic!("not started: {started}"))).unwrap()
    }

    /// Pauses a run as `person`.
    pub fn pause(&self, tenant: &str, person: &str, run: &RunId) {
        self.wait(self.handle(tenant, person).pause(run, "wait")).unwrap();
    }

    /// Waits for the next approval request of a run.
    pub fn approval(&self, tenant: &str, run: &RunId) -> ApprovalId {
        let handle = self.handle(tenant, "test");
        self.wait(async {
            loop {
                let open = handle.open_approvals(None, 50).await.unwrap().approvals;
                if let Some(approval) = open.into_iter().find(|approval| approval.run.run == *run) {
                    return approval.id;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
    }
}

fn engine(systems: &FakeSystems) -> Engine<SqliteStore> {
    let systems = systems.systems();
    let connections =
        systems.connection_parts(credential, ProcessContext::without_aws(|| SystemClock.now())).unwrap();
    let notifier = systems.notifier().unwrap();
    let builder = testkit::engine().standard_tools().connections(connections);
    builder.me("worker-a").notifier(notifier).signed().build()
}

async fn apply(engine: &Arc<Engine<SqliteStore>>, tenant: &str) {
    let handle = engine.tenant_handle(&tenant.parse().unwrap(), &Initiator::new(Cause::User, "wanda"));
    handle.apply(&testkit::plan(engine, TRIAGE)).await.unwrap();
}

/// Serves the console and the API on the loopback interface.
async fn serve(
    engine: &Arc<Engine<SqliteStore>>,
    key: evidence::PublicKey,
    login: impl AsyncFnOnce(&str) -> Option<Login>,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let sessions = Arc::new(Sessions::new([9; 32], CookieSecurity::Loopback));
    let gate = Authenticator::new(Arc::clone(engine)).with_sessions(Arc::clone(&sessions));
    let cursors = CursorSecret::new([8; 32]);
    let parts = console::Parts {
        engine: Arc::clone(engine),
        sessions,
        cursors: cursors.clone(),
        keys: Some(key.into()),
    };
    let console = match login(&url).await {
        Some(login) => Console::new(parts).with_login(login),
        None => Console::new(parts),
    };
    let pages = console::router(Arc::new(console));
    let routes: Router = api::router(Arc::new(Api::new(gate, cursors))).merge(pages);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}
