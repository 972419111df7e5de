//! Connections: which one a step uses, its environment, and its credential.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use connectors::{OperatorConnections, TenantConnections};
use countersign_engine::{ConnectionParts, Engine, StartRun};
use credentials::{FetchedSecret, LocalSecrets, SecretError, SecretSource};
use domain::connection::{ConnectionOptions, CredentialSpec};
use domain::plan::Environment;
use domain::receipt::ReceiptState;
use domain::{
    Connection, ConnectionKind, ConnectionName, RunKey, RunStatus, SecretRef, Subject, Tenant, TenantId,
};
use parking_lot::Mutex;
use serde_json::json;
use store::{Governance as _, Ledger as _, SqliteStore};
use testkit::{HttpStub, StubReply, acme};

const PASSWORD: &str = "correct horse battery";

/// A record that ServiceNow returns for every request.
const RECORD: &str =
    r#"{ "result": { "sys_id": "9d385017c611228701d22104cc95c371", "sys_mod_count": "1", "state": "1" } }"#;

const UPDATE: &str = "tool: servicenow.update, with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, fields: { state: '2' } }";

/// Named secrets that a test can change.
type Vars = Arc<Mutex<BTreeMap<String, String>>>;

struct Connected {
    engine: Engine<SqliteStore>,
    vars: Vars,
}

impl Connected {
    fn new(operator: OperatorConnections) -> Self {
        let vars = Vars::default();
        vars.lock().insert("PASSWORD".to_owned(), PASSWORD.to_owned());
        let named = Arc::clone(&vars);
        let secrets = Arc::new(LocalSecrets::new(move |name| named.lock().get(name).cloned()));
        let parts = ConnectionParts { operator: Arc::new(operator), secrets };
        let engine = testkit::engine().standard_tools().connections(parts).signed().build();
        Self { engine, vars }
    }

    fn with(connections: &[(&str, Connection)]) -> Self {
        Self::new(OperatorConnections { shared: named(connections), ..OperatorConnections::default() })
    }

    async fn start(&self, environment: &str, steps: &[&str]) -> RunKey {
        self.start_for(&acme(), environment, steps).await
    }

    async fn start_for(&self, tenant: &TenantId, environment: &str, steps: &[&str]) -> RunKey {
        let steps = steps.iter().enumerate().map(|(n, step)| format!("  - {{ id: s{n}, {step} }}\n"));
        let steps = steps.collect::<String>();
        let source = format!("workflow: w\nversion: 1\nenvironment: {environment}\nsteps:\n{steps}");
        let request =
            testkit::request(&self.engine, &source, &format!("{tenant}-{environment}-{}", steps.len()));
        let request = StartRun { tenant: tenant.clone(), ..request };
        Box::pin(self.engine.admission().start(request)).await.unwrap().run
    }

    async fn advance(&self, run: &RunKey) -> RunStatus {
        testkit::advance(&self.engine, run).await
    }

    /// The code and the message with which the step failed.
    async fn failure(&self, run: &RunKey) -> (String, String) {
        assert_eq!(self.advance(run).await, RunStatus::FailedTerminal);
        self.last_failure(run).await
    }

    /// The code and the message of the last failure in the chain.
    async fn last_failure(&self, run: &RunKey) -> (String, String) {
        let bodies = self.bodies(run).await.into_iter().rev();
        let failure = bodies.map(|body| body["failure"].clone()).find(|failure| !failure.is_null()).unwrap();
        let text = |name: &str| failure[name].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }

    /// The events of a run as JSON.
    async fn bodies(&self, run: &RunKey) -> Vec<serde_json::Value> {
        let events = self.engine.operations().inspect(run).await.unwrap().events.unwrap();
        events.iter().map(|event| json!(event.body)).collect()
    }

    async fn output(&self, run: &RunKey) -> serde_json::Value {
        let step = self.engine.store().step(run, domain::StepSeq(0), false).await.unwrap().unwrap();
        match step.output.unwrap() {
            domain::Payload::Inline(value) => value,
            domain::Payload::Blob(blob) => panic!("{blob:?}"),
        }
    }

    /// Sets the connections of acme's admins.
    async fn set(&self, connections: &[(&str, Connection)]) {
        let current = self.engine.store().tenant(&acme()).await.unwrap();
        let revision = current.as_ref().map_or(0, |tenant| tenant.revision + 1);
        let tenant = current.unwrap_or_else(|| Tenant::new(acme()));
        let tenant = Tenant { connections: named(connections), revision, ..tenant };
        self.engine.store().put_tenant(tenant).await.unwrap();
    }
}

fn named(connections: &[(&str, Connection)]) -> BTreeMap<ConnectionName, Connection> {
    connections.iter().map(|(name, connection)| (name.parse().unwrap(), connection.clone())).collect()
}

fn connection(kind: ConnectionKind, url: &str, environment: Environment) -> Connection {
    Connection {
        kind,
        base_url: url.to_owned(),
        environment,
        credential: Some(basic("env://PASSWORD")),
        workspace: None,
        options: ConnectionOptions::default(),
        version: 0,
    }
}

fn basic(secret: &str) -> CredentialSpec {
    CredentialSpec::Basic { user: "svc".to_owned(), password: secret.parse().unwrap() }
}

fn servicenow(stub: &HttpStub, environment: Environment) -> Connection {
    connection(ConnectionKind::ServiceNow, &stub.url(""), environment)
}

fn http(stub: &HttpStub, environment: Environment) -> Connection {
    connection(ConnectionKind::Http, &stub.url("/v1"), environment)
}

/// A ServiceNow with the record, which an update changes once.
fn records() -> HttpStub {
    HttpStub::start(|request| {
        let is_update = request.line().starts_with("PATCH ");
        let updated = || {
            RECORD
                .replace(r#""sys_mod_count": "1""#, r#""sys_mod_count": "2""#)
                .replace(r#""state": "1""#, r#""state": "2""#)
        };
        let record = if is_update { updated() } else { RECORD.to_owned() };
        StubReply::json(200, &record)
    })
}

#[tokio::test]
async fn dev_workflow_on_prod_connection() {
    let stub = records();
    for (workflow, connection, asks) in [
        ("dev", Environment::Dev, false),
        ("dev", Environment::Prod, true),
        ("staging", Environment::Prod, true),
        ("prod", Environment::Dev, true),
    ] {
        let env = Connected::with(&[("sn", servicenow(&stub, connection))]);
        let run = env.start(workflow, &[UPDATE]).await;
        let status = env.advance(&run).await;
        assert_eq!(status == RunStatus::WaitingApproval, asks, "{workflow} on {connection}: {status}");
        if asks {
            let approval = testkit::approvals(&env.engine, &run).await.pop().unwrap();
            let Subject::Action { action, .. } = &approval.subject else { panic!("{approval:?}") };
            let on = action.connection.as_ref().unwrap();
            assert_eq!((on.name.as_str(), on.environment), ("sn", connection));
            assert_eq!(approval.environment, Environment::Prod, "{workflow} on {connection}");
        }
    }
}

#[tokio::test]
async fn approval_ends_when_the_environment_changes() {
    let stub = records();
    let env = Connected::new(granting("vault://kv/acme/", &stub));
    let without_credential = |environment| Connection { credential: None, ..servicenow(&stub, environment) };
    env.set(&[("sn", without_credential(Environment::Staging))]).await;
    let run = env.start("prod", &[UPDATE]).await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    testkit::approve(&env.engine, &run, "grace").await.unwrap();
    env.set(&[("sn", without_credential(Environment::Prod))]).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval, "it is another action now");
    assert_eq!(testkit::approvals(&env.engine, &run).await.len(), 2);
}

/// An operator's configuration that gives acme these secrets, and the address of the stub.
fn granting(secrets: &str, stub: &HttpStub) -> OperatorConnections {
    let private_hosts =
        connectors::HostAllowList { hosts: vec![stub.address().to_string().parse().unwrap()] };
    let granted = TenantConnections {
        secrets: vec![secrets.parse().unwrap()],
        private_hosts,
        ..TenantConnections::default()
    };
    OperatorConnections { tenants: [(acme(), granted)].into(), ..OperatorConnections::default() }
}

#[tokio::test]
async fn step_uses_the_only_connection_of_its_kind() {
    let stub = records();
    let get = "tool: servicenow.get, with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371 }";
    let env = Connected::with(&[
        ("sn", servicenow(&stub, Environment::Dev)),
        ("other", http(&stub, Environment::Dev)),
    ]);
    let run = env.start("dev", &[get]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    let sent = stub.requests().pop().unwrap();
    assert_eq!(sent.header("authorization"), Some("Basic c3ZjOmNvcnJlY3QgaG9yc2UgYmF0dGVyeQ=="));

    let two = Connected::with(&[
        ("one", servicenow(&stub, Environment::Dev)),
        ("two", servicenow(&stub, Environment::Dev)),
    ]);
    let (code, message) = two.failure(&two.start("dev", &[get]).await).await;
    assert_eq!(code, "CONNECTION_AMBIGUOUS");
    assert!(message.contains("name one of `one`, `two`"), "{message}");
    let run = two.start("dev", &[&format!("connection: two, {get}")]).await;
    assert_eq!(two.advance(&run).await, RunStatus::Succeeded);

    let none = Connected::with(&[("other", http(&stub, Environment::Dev))]);
    let (code, message) = none.failure(&none.start("dev", &[get]).await).await;
    assert_eq!(code, "NOT_CONNECTED");
    assert!(message.contains("countersign connection set"), "{message}");
}

#[tokio::test]
async fn workflow_names_other_tenants_connection() {
    let stub = records();
    let theirs = TenantConnections {
        connections: named(&[("theirs", servicenow(&stub, Environment::Dev))]),
        ..TenantConnections::default()
    };
    let umbrella: TenantId = "umbrella".parse().unwrap();
    let tenants = [(umbrella.clone(), theirs)].into();
    let env = Connected::new(OperatorConnections { tenants, ..OperatorConnections::default() });
    let unknown = env.failure(&env.start("dev", &[&format!("connection: nobodys, {UPDATE}")]).await).await;
    let foreign = env.failure(&env.start("dev", &[&format!("connection: theirs, {UPDATE}")]).await).await;
    assert_eq!(foreign.0, "CONNECTION_UNKNOWN");
    assert_eq!(foreign.1.replace("theirs", "nobodys"), unknown.1, "the same answer");
    assert!(stub.requests().is_empty());
    let own = env.start_for(&umbrella, "dev", &[UPDATE]).await;
    assert_eq!(env.advance(&own).await, RunStatus::Succeeded);
}

#[tokio::test]
async fn connection_of_another_workspace_is_unknown() {
    let stub = records();
    let other =
        Connection { workspace: Some("payments".parse().unwrap()), ..servicenow(&stub, Environment::Dev) };
    let env = Connected::with(&[("sn", other)]);
    let (code, _) = env.failure(&env.start("dev", &[&format!("connection: sn, {UPDATE}")]).await).await;
    assert_eq!(code, "CONNECTION_UNKNOWN");
}

#[tokio::test]
async fn admin_cannot_name_secrets_that_are_not_granted() {
    let stub = records();
    for secret in [
        "env://PASSWORD",
        "file:///proc/self/environ",
        "vault://kv/umbrella/servicenow#password",
        "vault://kv/acme-2/servicenow#password",
    ] {
        let env = Connected::new(granting("vault://kv/acme/", &stub));
        let named = Connection { credential: Some(basic(secret)), ..servicenow(&stub, Environment::Dev) };
        env.set(&[("sn", named)]).await;
        let (code, message) = env.failure(&env.start("dev", &[UPDATE]).await).await;
        assert_eq!(code, "CONNECTION_REFUSED", "{secret}");
        assert!(message.contains(secret) && message.contains("operator"), "{message}");
        assert!(stub.requests().is_empty());
    }
}

#[tokio::test]
async fn admin_cannot_reach_private_addresses() {
    let stub = records();
    let without_credential = Connection { credential: None, ..servicenow(&stub, Environment::Dev) };
    let env = Connected::new(OperatorConnections::default());
    env.set(&[("sn", without_credential.clone())]).await;
    let (code, _) = env.failure(&env.start("dev", &[UPDATE]).await).await;
    assert_eq!(code, "HTTP_BLOCKED");
    assert!(stub.requests().is_empty());
    let granted = Connected::new(granting("vault://kv/acme/", &stub));
    granted.set(&[("sn", without_credential)]).await;
    let run = granted.start("dev", &[UPDATE]).await;
    assert_eq!(granted.advance(&run).await, RunStatus::Succeeded);
}

#[tokio::test]
async fn rotated_secret_works_at_the_next_step() {
    let stub = records();
    let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
    let get = "tool: http.request, connection: api, with: { url: /orders }";
    let run = env.start("dev", &[get]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    env.vars.lock().insert("PASSWORD".to_owned(), "rotated password".to_owned());
    let run = env.start("dev", &[get, get]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    let sent: Vec<_> =
        stub.requests().iter().map(|sent| sent.header("authorization").unwrap().to_owned()).collect();
    assert_ne!(sent[0], sent[1]);
    assert_eq!(sent[1], sent[2]);
}

/// A source whose secret disappears between the check and the fetch.
struct Vanishing;

#[async_trait]
impl SecretSource for Vanishing {
    fn check(&self, _: &TenantId, _: &SecretRef) -> Result<(), SecretError> {
        Ok(())
    }

    async fn fetch(&self, _: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        Err(SecretError::Refused { secret: secret.clone(), why: "it was deleted".to_owned() })
    }
}

/// Nothing was sent, so the outcome is known: the effect did not happen.
#[tokio::test]
async fn missing_secret_closes_the_intent_as_not_performed() {
    let stub = records();
    let shared = named(&[("api", http(&stub, Environment::Dev))]);
    let operator = Arc::new(OperatorConnections { shared, ..OperatorConnections::default() });
    let parts = ConnectionParts { operator, secrets: Arc::new(Vanishing) };
    let engine = testkit::engine().standard_tools().connections(parts).signed().build();
    let env = Connected { engine, vars: Vars::default() };
    let put = "tool: http.request, connection: api, with: { url: /orders, method: PUT, effect: native_key }";
    let run = env.start("dev", &[put]).await;
    if env.advance(&run).await == RunStatus::WaitingApproval {
        testkit::approve(&env.engine, &run, "grace").await.unwrap();
    }
    let (code, message) = env.failure(&run).await;
    assert_eq!(code, "CREDENTIAL_UNAVAILABLE");
    assert!(message.contains("it was deleted"), "{message}");
    assert!(stub.requests().is_empty());
    let bodies = env.bodies(&run).await;
    let intended = bodies.iter().find(|body| body["kind"] == "effect_intended").unwrap();
    let key = intended["receipt"]["key"].as_str().unwrap().parse().unwrap();
    let receipt = env.engine.store().receipt(&acme(), &key).await.unwrap().unwrap();
    assert!(matches!(receipt.state, ReceiptState::Failed { .. }), "{:?}", receipt.state);
}

#[tokio::test]
async fn receipt_names_the_credential() {
    let stub = records();
    let env = Connected::with(&[("sn", servicenow(&stub, Environment::Dev))]);
    let run = env.start("dev", &[UPDATE]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    let step = env.engine.store().step(&run, domain::StepSeq(0), false).await.unwrap().unwrap();
    let receipt = env.engine.store().receipt(&acme(), &step.receipt.unwrap()).await.unwrap().unwrap();
    let ReceiptState::Done { response, inverse, .. } = &receipt.state else { panic!("{receipt:?}") };
    assert_eq!(response["credential"], "env://PASSWORD");
    assert_eq!(inverse.as_ref().unwrap()["connection"], "sn");
    assert!(!format!("{receipt:?}").contains(PASSWORD));
}

#[tokio::test]
async fn secret_is_checked_before_the_claim() {
    let stub = records();
    let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
    env.vars.lock().clear();
    let put = "tool: http.request, connection: api, with: { url: /orders, method: PUT, effect: native_key }";
    let (code, message) = env.failure(&env.start("dev", &[put]).await).await;
    assert_eq!(code, "CREDENTIAL_UNAVAILABLE");
    assert!(message.contains("PASSWORD is not set"), "{message}");
}

#[tokio::test]
async fn http_request_stays_below_its_connection() {
    let stub = records();
    let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
    let inside = format!("tool: http.request, connection: api, with: {{ url: '{}' }}", stub.url("/v1/a?b=c"));
    let run = env.start("dev", &[&inside]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    assert_eq!(stub.requests()[0].line(), "GET /v1/a?b=c");
    for outside in [stub.url("/v2/a"), stub.url("/v1/../admin"), "https://evil.example/v1/a".to_owned()] {
        let step = format!("tool: http.request, connection: api, with: {{ url: '{outside}' }}");
        let (code, message) = env.failure(&env.start("dev", &[&step]).await).await;
        assert_eq!(code, "TOOL_FIELDS", "{outside}: {message}");
    }
    assert_eq!(stub.requests().len(), 1, "the credential was sent nowhere else");
}

#[tokio::test]
async fn connection_base_url_redirects() {
    let elsewhere = records();
    let location = format!("location: {}\r\n", elsewhere.url("/v1/a"));
    let stub = HttpStub::answering(StubReply::new(307, &location, ""));
    let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
    let run = env.start("dev", &["tool: http.request, connection: api, with: { url: /a }"]).await;
    let (_, message) = env.failure(&run).await;
    assert!(message.contains("redirects are not followed"), "{message}");
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn secret_echoed_in_output() {
    let stub = HttpStub::start(|request| {
        let sent = request.header("authorization").unwrap_or_default();
        StubReply::json(200, &json!({ "you sent": [sent, PASSWORD], PASSWORD: true }).to_string())
    });
    let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
    let run = env.start("dev", &["tool: http.request, connection: api, with: { url: /a }"]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    let output = env.output(&run).await.to_string();
    assert!(!output.contains(PASSWORD) && output.contains("[redacted]"), "{output}");
}

#[tokio::test]
async fn secret_echoed_base64() {
    let stub = HttpStub::start(|request| {
        let sent = request.header("authorization").unwrap_or_default();
        StubReply::json(200, &json!({ "you sent": sent }).to_string())
    });
    let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
    let run = env.start("dev", &["tool: http.request, connection: api, with: { url: /a }"]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    let output = env.output(&run).await.to_string();
    // The password within `svc:PASSWORD` in base64.
    assert!(!output.contains("vcnJlY3QgaG9yc2UgYmF0dGVye"), "{output}");
}

#[tokio::test]
async fn secret_in_error_body() {
    let stub = HttpStub::answering(StubReply::json(400, &format!("{{\"error\": \"wrong: {PASSWORD}\"}}")));
    let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
    let run = env.start("dev", &["tool: http.request, connection: api, with: { url: /a }"]).await;
    let (_, message) = env.failure(&run).await;
    assert!(!message.contains(PASSWORD), "{message}");
}

/// The instance of the connection was replaced after the update. Its record has the same id, and must not be changed.
#[tokio::test]
async fn inverse_is_not_called_on_another_system() {
    let (first, second) = (records(), records());
    let env = Connected::new(granting("vault://kv/acme/", &first));
    let without_credential =
        |stub: &HttpStub| Connection { credential: None, ..servicenow(stub, Environment::Dev) };
    env.set(&[("sn", without_credential(&first))]).await;
    let gate = "tool: approval.gate, with: { message: 'Go on?' }";
    let run = env.start("dev", &[&format!("{UPDATE}, rollback: auto"), gate]).await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.set(&[("sn", without_credential(&second))]).await;
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    env.engine.tenant_handle(&acme(), &testkit::ada()).roll_back(&run.run, "wrong", None).await.unwrap();
    assert_eq!(env.advance(&run).await, RunStatus::Paused);
    let last = env.bodies(&run).await.pop().unwrap().to_string();
    assert!(last.contains("CONNECTION_CHANGED") || last.contains("another address"), "{last}");
    assert!(second.requests().is_empty());
}
