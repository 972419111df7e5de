//! Connections: which one a step uses, its environment, and its credential.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{OperatorConnections, TenantConnections};
use countersign_engine::{ConnectionParts, Engine, StartRun, Timing};
use credentials::{FetchedSecret, LocalSecrets, SecretError, SecretSource};
use domain::connection::{ConnectionOptions, CredentialSpec};
use domain::plan::Environment;
use domain::receipt::ReceiptState;
use domain::{
    Connection, ConnectionKind, ConnectionName, Millis, RunKey, RunStatus, SecretRef, Subject, Tenant,
    TenantId,
};
use parking_lot::Mutex;
use serde_json::json;
use store::{Governance as _, Ledger as _, SqliteStore};
use testkit::{HttpStub, StubEnding, StubReply, acme};

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
        let parts = ConnectionParts { operator: Arc::new(operator), is_complete: true, secrets };
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

    /// The error of applying a workflow with these steps, if it is refused.
    async fn apply(&self, version: u32, steps: &[&str]) -> Option<String> {
        let steps = steps.iter().enumerate().map(|(n, step)| format!("  - {{ id: s{n}, {step} }}\n"));
        let source = format!("workflow: w\nversion: {version}\nsteps:\n{}", steps.collect::<String>());
        let handle = self.engine.tenant_handle(&acme(), &testkit::ada());
        let plan = testkit::plan(&self.engine, &source);
        let error = handle.apply(&plan).await.err().map(|error| error.to_string());
        let applied = handle.workflows().await.unwrap();
        assert_eq!(error.is_none(), applied.iter().any(|applied| applied.version == version));
        error
    }

    /// Sets the expression that acme's admins redact.
    async fn redact(&self, expression: &str) {
        let tenant = Tenant { redact: vec![expression.to_owned()], ..Tenant::new(acme()) };
        self.engine.store().put_tenant(tenant).await.unwrap();
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
    tokio::time::sleep(Duration::from_millis(1_200)).await;
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
async fn workflow_without_a_usable_connection_is_not_applied() {
    let stub = records();
    let scoped = |name: &str| Connection {
        workspace: Some(name.parse().unwrap()),
        ..servicenow(&stub, Environment::Dev)
    };
    let env = Connected::with(&[("web", http(&stub, Environment::Dev))]);
    let rollback = format!("tool: transform, with: {{ value: 1 }}, rollback: {{ {UPDATE} }}");
    for (steps, why) in [
        (UPDATE, "step s0: `servicenow.update` needs a connection"),
        (rollback.as_str(), "step s0: `servicenow.update` needs a connection"),
        ("tool: http.request, connection: other, with: { url: /a }", "no connection `other`"),
        ("tool: transform, connection: web, with: { value: 1 }", "uses no connection"),
        (&format!("connection: web, {UPDATE}"), "is of kind `http`; the step needs `servicenow`"),
    ] {
        let error = env.apply(1, &[steps]).await.unwrap();
        assert!(error.contains(why), "{error}");
    }
    // One connection in each of two workspaces: each run has one.
    env.set(&[("one", scoped("one")), ("two", scoped("two"))]).await;
    assert_eq!(env.apply(1, &[UPDATE, "tool: http.request, with: { url: 'https://a.example' }"]).await, None);
    env.set(&[("one", scoped("one")), ("same", scoped("one"))]).await;
    assert!(env.apply(2, &[UPDATE]).await.unwrap().contains("needs a connection"));

    // A process without the operator's configuration cannot tell what the workers have.
    let unaware = testkit::engine().standard_tools().build();
    testkit::apply(&unaware, &format!("workflow: w\nversion: 1\nsteps: [{{ id: a, {UPDATE} }}]")).await;
}

#[tokio::test]
async fn connection_test_sends_one_harmless_request() {
    let stub = HttpStub::start(|request| match request.header("authorization") {
        Some("Basic c3ZjOmNvcnJlY3QgaG9yc2UgYmF0dGVyeQ==") => StubReply::json(200, r#"{ "result": [] }"#),
        _ => StubReply::json(401, "{}"),
    });
    let env = Connected::with(&[
        ("servicenow", servicenow(&stub, Environment::Prod)),
        ("web", Connection { credential: None, ..http(&stub, Environment::Prod) }),
        (
            "lost",
            Connection { base_url: "http://127.0.0.1:9".to_owned(), ..servicenow(&stub, Environment::Prod) },
        ),
        (
            "secretless",
            Connection { credential: Some(basic("env://ABSENT")), ..servicenow(&stub, Environment::Prod) },
        ),
    ]);
    let test = async |name: &str, key: &str| {
        let handle = env.engine.tenant_handle(&acme(), &testkit::ada());
        Box::pin(handle.test_connection(&name.parse().unwrap(), key.parse().unwrap())).await.unwrap().run
    };
    let run = test("servicenow", "k1").await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    assert_eq!(env.output(&run).await["authentication"], "accepted");

    env.vars.lock().insert("PASSWORD".to_owned(), "replaced at the system".to_owned());
    let (code, message) = env.failure(&test("servicenow", "k2").await).await;
    assert!(code == "NOT_AUTHORIZED" && message.contains("401"), "{code} {message}");
    assert_eq!(env.failure(&test("web", "k3").await).await.0, "NOT_AUTHORIZED");
    let lost = test("lost", "k4").await;
    env.failure(&lost).await;
    assert!(json!(env.bodies(&lost).await).to_string().contains("HTTP_UNREACHABLE"));
    assert_eq!(env.failure(&test("secretless", "k5").await).await.0, "CREDENTIAL_UNAVAILABLE");
    let changes =
        |sent: &testkit::StubRequest| !sent.line().starts_with("GET ") && !sent.line().starts_with("HEAD ");
    assert!(!stub.requests().iter().any(changes));
    let unknown = env.engine.tenant_handle(&acme(), &testkit::ada());
    let name = "unknown".parse().unwrap();
    assert!(Box::pin(unknown.test_connection(&name, "k6".parse().unwrap())).await.is_err());
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
    let parts = ConnectionParts { operator, is_complete: true, secrets: Arc::new(Vanishing) };
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

/// Sends a reply in two parts, which split the password.
fn in_two_parts(status: u16, pause: Duration) -> StubReply {
    let (first, second) = PASSWORD.split_at(11);
    let body = format!("refused: {PASSWORD}, and again {PASSWORD}");
    let (start, end) = body.split_once(&format!("{second}, ")).unwrap();
    assert!(start.ends_with(first));
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    StubReply::raw(&format!("{head}{start}")).then(StubEnding::After(pause, format!("{second}, {end}")))
}

#[tokio::test]
async fn secret_split_across_chunks() {
    // The start of an error is read for at most two seconds, so it can end within a secret.
    for (status, pause) in [(200, 100), (400, 100), (400, 3_000)] {
        let stub = HttpStub::answering(in_two_parts(status, Duration::from_millis(pause)));
        let env = Connected::with(&[("api", http(&stub, Environment::Dev))]);
        let run = env.start("dev", &["tool: http.request, connection: api, with: { url: /a }"]).await;
        env.advance(&run).await;
        let events = json!(env.bodies(&run).await).to_string();
        let all = match status {
            200 => env.output(&run).await.to_string(),
            _ => events,
        };
        assert!(all.contains("refused") || pause == 3_000, "{all}");
        assert!(!all.contains("correct"), "{status} after {pause} ms: {all}");
    }
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
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    env.engine.tenant_handle(&acme(), &testkit::ada()).roll_back(&run.run, "wrong", None).await.unwrap();
    assert_eq!(env.advance(&run).await, RunStatus::Paused);
    let last = env.bodies(&run).await.pop().unwrap().to_string();
    assert!(last.contains("CONNECTION_CHANGED") || last.contains("another address"), "{last}");
    assert!(second.requests().is_empty());
}

/// A store of secrets whose secret is rotated after the first fetch.
struct Rotated {
    values: [&'static str; 2],
    fetched: AtomicU32,
}

#[async_trait]
impl SecretSource for Rotated {
    fn check(&self, _: &TenantId, _: &SecretRef) -> Result<(), SecretError> {
        Ok(())
    }

    async fn fetch(&self, tenant: &TenantId, _: &SecretRef) -> Result<FetchedSecret, SecretError> {
        let before = self.fetched.fetch_add(1, Ordering::SeqCst);
        let value = self.values[usize::from(before > 0)];
        let local = "env://ANY".parse().unwrap();
        LocalSecrets::new(move |_| Some(value.to_owned())).fetch(tenant, &local).await
    }
}

#[tokio::test]
async fn refused_credential_is_fetched_again_once() {
    let stub = HttpStub::start(|request| match request.header("authorization") {
        Some("Bearer second-secret") => StubReply::json(200, r#"{ "was": "second-secret first-secret" }"#),
        _ => StubReply::json(401, "{}"),
    });
    let bearer = CredentialSpec::Bearer { token: "env://TOKEN".parse().unwrap() };
    let connection = Connection { credential: Some(bearer), ..http(&stub, Environment::Dev) };
    let post = "tool: http.request, connection: web, with: { method: POST, url: /orders, effect: opaque }";
    for (values, requests, status) in [
        (["first-secret", "second-secret"], 2, RunStatus::Succeeded),
        (["first-secret", "first-secret"], 1, RunStatus::FailedTerminal),
        (["first-secret", "third-secret"], 2, RunStatus::FailedTerminal),
    ] {
        let sent = stub.requests().len();
        let mut env = Connected::with(&[("web", connection.clone())]);
        let shared = named(&[("web", connection.clone())]);
        let operator = Arc::new(OperatorConnections { shared, ..OperatorConnections::default() });
        let secrets = Arc::new(Rotated { values, fetched: AtomicU32::new(0) });
        let parts = ConnectionParts { operator, is_complete: true, secrets };
        env.engine = testkit::engine().standard_tools().connections(parts).build();
        let run = env.start("dev", &[post]).await;
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval, "a POST is irreversible");
        testkit::approve(&env.engine, &run, "grace").await.unwrap();
        assert_eq!(env.advance(&run).await, status, "{values:?}");
        assert_eq!(stub.requests().len() - sent, requests, "{values:?}");
        if status == RunStatus::Succeeded {
            assert_eq!(env.output(&run).await["body"]["was"], "[redacted] [redacted]");
        }
    }
}

fn oauth2(token_url: &str, secret: &str) -> CredentialSpec {
    CredentialSpec::OAuth2 {
        token_url: token_url.to_owned(),
        client_id: "counter sign".to_owned(),
        client_secret: secret.parse().unwrap(),
        scopes: vec!["orders.read".to_owned(), "orders.write".to_owned()],
    }
}

/// An API, and its token endpoint, which answers with `status` once and then with a token.
fn orders(status: u16) -> HttpStub {
    let asked = Arc::new(AtomicBool::new(status == 200));
    HttpStub::start(move |request| match (request.line(), request.header("authorization")) {
        ("POST /token", _) if !asked.swap(true, Ordering::SeqCst) => {
            StubReply::json(status, r#"{ "error": "client-secret-1" }"#)
        }
        ("POST /token", Some("Basic Y291bnRlcitzaWduOmNvcnJlY3QraG9yc2UrYmF0dGVyeQ=="))
            if request.body == "grant_type=client_credentials&scope=orders.read+orders.write" =>
        {
            StubReply::json(200, r#"{ "access_token": "issued-token", "token_type": "bearer" }"#)
        }
        ("GET /v1/orders", Some("Bearer issued-token")) => {
            StubReply::json(200, r#"{ "token": "issued-token" }"#)
        }
        _ => StubReply::json(403, "{}"),
    })
}

const GET_ORDERS: &str = "tool: http.request, connection: web, with: { url: /orders }";

#[tokio::test]
async fn oauth2_token_is_requested_for_the_step() {
    for (status, expected, code) in [
        (200, RunStatus::Succeeded, ""),
        (401, RunStatus::FailedTerminal, "CREDENTIAL_UNAVAILABLE"),
        (302, RunStatus::FailedTerminal, "CREDENTIAL_UNAVAILABLE"),
        (503, RunStatus::FailedRetryable, "CREDENTIAL_UNAVAILABLE"),
    ] {
        let stub = orders(status);
        let credential = oauth2(&stub.url("/token"), "env://PASSWORD");
        let env = Connected::with(&[(
            "web",
            Connection { credential: Some(credential), ..http(&stub, Environment::Dev) },
        )]);
        let run = env.start("dev", &[GET_ORDERS]).await;
        assert_eq!(env.advance(&run).await, expected, "{status}");
        if status == 200 {
            assert_eq!(env.output(&run).await["body"]["token"], "[redacted]");
        } else {
            let (found, message) = env.last_failure(&run).await;
            assert_eq!(found, code, "{message}");
            assert!(!message.contains("client-secret-1"), "{message}");
            assert_eq!(stub.requests().len(), 1, "the API is not called");
        }
    }
}

#[tokio::test]
async fn oauth_token_endpoint_private_address() {
    let (api, other) = (orders(200), orders(200));
    let credential = oauth2(&other.url("/token"), "vault://kv/acme/orders");
    let connection = Connection { credential: Some(credential), ..http(&api, Environment::Dev) };
    // The secret can be fetched; the address of the token endpoint is refused.
    let mut parts = ConnectionParts { is_complete: true, ..ConnectionParts::default() };
    parts.operator = Arc::new(granting("vault://kv/acme/", &api));
    parts.secrets = Arc::new(Rotated { values: ["client-secret-1"; 2], fetched: AtomicU32::new(0) });
    let engine = testkit::engine().standard_tools().connections(parts).build();
    let env = Connected { engine, vars: Vars::default() };
    env.set(&[("web", connection)]).await;
    let (code, message) = env.failure(&env.start("dev", &[GET_ORDERS]).await).await;
    assert_eq!(code, "CREDENTIAL_UNAVAILABLE");
    assert!(message.contains("token_url") && !message.contains("client-secret-1"), "{message}");
    assert!(other.requests().is_empty() && api.requests().is_empty());
}

#[tokio::test]
async fn aws_request_is_signed_with_the_keys_of_the_secret() {
    let stub = HttpStub::start(|request| {
        let echoed = request.header("x-amz-security-token").unwrap_or("none");
        StubReply::json(200, &format!(r#"{{ "token": "{echoed}" }}"#))
    });
    let credential = CredentialSpec::AwsSigv4 {
        keys: "env://KEYS".parse().unwrap(),
        region: "eu-central-1".to_owned(),
        service: "execute-api".to_owned(),
    };
    let env = Connected::with(&[(
        "web",
        Connection { credential: Some(credential), ..http(&stub, Environment::Dev) },
    )]);
    let keys = r#"{ "access_key": "AKIDEXAMPLE", "secret_key": "secret-key-1", "security_token": "session-token-1" }"#;
    env.vars.lock().insert("KEYS".to_owned(), keys.to_owned());
    let run = env.start("dev", &[GET_ORDERS]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    assert_eq!(env.output(&run).await["body"]["token"], "[redacted]");
    let sent = stub.requests().pop().unwrap();
    let authorization = sent.header("authorization").unwrap();
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{authorization}");
    let covers =
        "/eu-central-1/execute-api/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token,";
    assert!(authorization.contains(covers), "{authorization}");

    env.vars.lock().insert("KEYS".to_owned(), "secret-key-1".to_owned());
    let (code, message) = env.failure(&env.start("staging", &[GET_ORDERS]).await).await;
    assert!(code == "CREDENTIAL_UNAVAILABLE" && !message.contains("secret-key-1"), "{code} {message}");
}

#[tokio::test]
async fn expressions_of_the_tenant_are_redacted() {
    let stub = HttpStub::start(|request| match request.line() {
        "GET /v1/orders" => StubReply::json(200, r#"{ "pin": "PIN-123456" }"#),
        _ => StubReply::json(422, r#"{ "error": "PIN-123456 is wrong" }"#),
    });
    let env = Connected::with(&[("web", http(&stub, Environment::Dev))]);
    env.redact("PIN-[0-9]+").await;
    let run = env.start("dev", &[GET_ORDERS]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    assert_eq!(env.output(&run).await["body"]["pin"], "[redacted]");
    let wrong = "tool: http.request, connection: web, with: { url: /other }";
    let (_, message) = env.failure(&env.start("staging", &[wrong]).await).await;
    assert!(message.contains("[redacted] is wrong"), "{message}");
    // A tool without a connection returns what others wrote, too.
    let bare = format!("tool: http.request, with: {{ url: '{}' }}", stub.url("/v1/orders"));
    let allow = connectors::HostAllowList { hosts: vec![stub.address().to_string().parse().unwrap()] };
    let tools = connectors::standard_tools(allow);
    let env = Connected { engine: testkit::engine().tools(tools).build(), vars: Vars::default() };
    env.redact("PIN-[0-9]+").await;
    let run = env.start("prod", &[&bare]).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    assert_eq!(env.output(&run).await["body"]["pin"], "[redacted]");
}

/// Blocks its process during the first fetch, as a suspended one, until another worker has completed the step.
struct SuspendedDuringFetch {
    path: PathBuf,
    operator: Arc<OperatorConnections>,
    is_first: AtomicBool,
    run: Mutex<Option<RunKey>>,
}

impl SuspendedDuringFetch {
    /// Another worker takes over the step when its lease has expired.
    fn take_over(&self) {
        let run = self.run.lock().clone().unwrap();
        let secrets = Arc::new(LocalSecrets::new(|_| Some(PASSWORD.to_owned())));
        let parts = ConnectionParts { operator: Arc::clone(&self.operator), is_complete: true, secrets };
        let other = testkit::engine().standard_tools().connections(parts).me("w2").signed();
        let other = other.on(testkit::open(&self.path));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let status = std::thread::spawn(move || {
            std::thread::sleep(LEASE.std() + Duration::from_millis(200));
            runtime.block_on(async { testkit::advance(&other, &run).await })
        });
        assert_eq!(status.join().unwrap(), RunStatus::Succeeded);
    }
}

const LEASE: Millis = Millis(1_500);

#[async_trait]
impl SecretSource for SuspendedDuringFetch {
    fn check(&self, _: &TenantId, _: &SecretRef) -> Result<(), SecretError> {
        Ok(())
    }

    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        if self.is_first.swap(false, Ordering::SeqCst) {
            self.take_over();
        }
        LocalSecrets::new(|_| Some(PASSWORD.to_owned())).fetch(tenant, secret).await
    }
}

/// A worker that is suspended while it fetches a credential sends nothing after another worker has taken over.
#[tokio::test]
async fn credential_fetched_by_old_fence() {
    let stub = HttpStub::answering(StubReply::json(200, "{}"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let shared = named(&[("api", http(&stub, Environment::Dev))]);
    let operator = Arc::new(OperatorConnections { shared, ..OperatorConnections::default() });
    let secrets = Arc::new(SuspendedDuringFetch {
        path: path.clone(),
        operator: Arc::clone(&operator),
        is_first: AtomicBool::new(true),
        run: Mutex::default(),
    });
    let parts = ConnectionParts { operator, is_complete: true, secrets: Arc::clone(&secrets) as _ };
    let timing = Timing { lease: LEASE, renew_every: Millis(500), ..Timing::default() };
    let engine = testkit::engine().standard_tools().connections(parts).timing(timing).signed();
    let env = Connected { engine: engine.on(testkit::open(&path)), vars: Vars::default() };
    let put = "tool: http.request, connection: api, with: { url: /orders, method: PUT, effect: native_key }";
    let run = env.start("dev", &[&format!("{put}, rollback: {{ {put} }}")]).await;
    *secrets.run.lock() = Some(run.clone());
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    let lines: Vec<String> = stub.requests().iter().map(|request| request.line().to_owned()).collect();
    assert_eq!(lines, ["PUT /v1/orders"], "only the second worker may send the request");
}
