//! Deliveries that the webhook handler accepts and rejects. Tests with short names are named after an entry in the list
//! of threats.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(non_snake_case, reason = "threat tests have the names of the list of threats")]

use std::collections::BTreeSet;
use std::ops::Deref;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use countersign_ingress::webhook::{
    AuthScheme, BODY_BYTES_MAX, InvalidWebhookAuth, WebhookAuth, deliver, unauthenticated,
};
use domain::inbox::TRIES_MAX;
use domain::{
    InboxEntry, InboxStatus, Job, Millis, ParticipantRole, QueueName, RunKey, RunStatus, Source, TenantId,
    Timestamp, ToolName, TraceContext,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use serde_json::{Value, json};
use signing::{Secrets, sign, sign_body};
use store::{Inbox as _, Intercepted, Ledger as _, Queue as _, RunQuery, StoreError};
use testkit::{EngineBuilder, Fault, Faults, TestClock, TestEnv, memory};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

const ACME: &str = "the secret of acme's ServiceNow";
const ACME_BEFORE: &str = "what acme signed with before";
const UMBRELLA: &str = "the secret of umbrella's ServiceNow";
const HUB: &str = "the secret of acme's GitHub";
const HOOK: &str = "the secret of acme's own scripts";
const TOKEN: &str = "umbrella-shows-this-token";
const PASSWORD: &str = "svc-initech:correct horse battery";

const WORKFLOWS_PAGE: &str = include_str!("../../../docs/workflows.md");

const SYS_ID: &str = "9d385017c611228701d22104cc95c371";

fn secrets(secret: &str) -> Secrets {
    Secrets::new(secret.into()).unwrap()
}

/// Acme's previous ServiceNow secret expires `grace_ms` from now.
fn webhook_auth(grace_ms: i64) -> WebhookAuth {
    let acme = secrets(ACME).and_previous(ACME_BEFORE.into(), Timestamp(NOW.0 + grace_ms)).unwrap();
    [
        ("acme", Source::ServiceNow, AuthScheme::Hmac(acme)),
        ("umbrella", Source::ServiceNow, AuthScheme::Hmac(secrets(UMBRELLA))),
        ("initech", Source::ServiceNow, AuthScheme::Basic(secrets(PASSWORD))),
        ("acme", Source::GitHub, AuthScheme::GitHub(secrets(HUB))),
        ("acme", Source::Webhook, AuthScheme::Hmac(secrets(HOOK))),
        ("umbrella", Source::Webhook, AuthScheme::Bearer(secrets(TOKEN))),
    ]
    .into_iter()
    .try_fold(WebhookAuth::default(), |auth, (tenant, source, scheme)| {
        auth.with(tenant.parse().unwrap(), source, scheme)
    })
    .unwrap()
}

fn builder() -> EngineBuilder {
    testkit::engine().clock(TestClock::at(NOW)).me("ingress")
}

/// Webhook authentication for three tenants, and an empty engine.
struct WebhookEnv {
    env: TestEnv,
    auth: WebhookAuth,
}

impl Deref for WebhookEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl WebhookEnv {
    fn new() -> Self {
        Self { env: builder().env(), auth: webhook_auth(1) }
    }

    async fn deliver(&self, sent: &Delivery) -> Response<String> {
        deliver(&self.engine, &self.auth, &sent.request()).await
    }

    /// Applies a workflow for acme.
    async fn apply(&self, source: &str) {
        let tools = ["http.request", "transform"].map(|tool| ToolName::new(tool).unwrap());
        let plan = workflow::parse(source, &BTreeSet::from(tools)).unwrap();
        self.handle("ada").apply(&plan).await.unwrap();
    }

    /// Applies a workflow that every event of `source` triggers.
    async fn apply_for(&self, source: Source, name: &str) {
        let workflow = format!(
            "workflow: {name}\nversion: 1\ntrigger: {{ {source}: {{ when: '${{ \"{name}\" != \"\" }}' }} }}\n\
             steps:\n  - {{ id: ask, tool: approval.gate, with: {{ message: 'Go on?' }} }}\n"
        );
        self.apply(&workflow).await;
    }

    async fn messages(&self) -> Vec<(RunKey, Job)> {
        let received = self
            .engine
            .store()
            .receive(QueueName::Ingest, 10, Millis::mins(1), Duration::ZERO)
            .await
            .unwrap();
        received.into_iter().map(|delivery| (delivery.run, delivery.job)).collect()
    }

    /// Asserts that the delivery gets `status`, and that nothing is stored or sent.
    async fn rejects(&self, sent: &Delivery, status: u16) -> Response<String> {
        let response = self.deliver(sent).await;
        assert_eq!(response.status().as_u16(), status, "{}", response.body());
        self.assert_empty().await;
        response
    }

    async fn assert_empty(&self) {
        assert_eq!(self.messages().await, []);
        for tenant in ["acme", "umbrella", "initech"] {
            let tenant: TenantId = tenant.parse().unwrap();
            for run in default_runs(&tenant) {
                assert_eq!(self.store().entry(&run).await.unwrap(), None);
            }
            assert_eq!(self.store().runs(&tenant, RunQuery::newest(10)).await.unwrap().runs, []);
        }
    }

    /// Asserts that the delivery is accepted as new and stored, and that a message is sent.
    async fn accepts(&self, sent: &Delivery) -> InboxEntry {
        let response = self.deliver(sent).await;
        assert_eq!(response.status(), 202, "{}", response.body());
        let body: Value = serde_json::from_str(response.body()).unwrap();
        assert_eq!(body["status"], "accepted");
        let run = RunKey {
            tenant: sent.tenant.parse().unwrap(),
            run: body["run"].as_str().unwrap().parse().unwrap(),
        };
        assert!(self.messages().await.contains(&(run.clone(), Job::Start)));
        self.store().entry(&run).await.unwrap().unwrap()
    }

    /// Asserts that the delivery is a duplicate of `entry`.
    async fn deduplicates(&self, sent: &Delivery, entry: &InboxEntry) {
        let response = self.deliver(sent).await;
        let body: Value = serde_json::from_str(response.body()).unwrap();
        let expected = json!({ "run": entry.run.run, "status": "duplicate", "outcome": "pending" });
        assert_eq!((response.status().as_u16(), body), (202, expected));
        let others: Vec<_> = self.messages().await.into_iter().filter(|(run, _)| *run != entry.run).collect();
        assert_eq!(others, []);
        assert_eq!(self.store().entry(&entry.run).await.unwrap().as_ref(), Some(entry));
    }
}

fn parts(response: Response<String>) -> (StatusCode, HeaderMap, String) {
    let (parts, body) = response.into_parts();
    (parts.status, parts.headers, body)
}

/// The runs that the default deliveries of these tests would start.
fn default_runs(tenant: &TenantId) -> impl Iterator<Item = RunKey> {
    let servicenow = format!("servicenow:incident:{SYS_ID}:3");
    let keys =
        [servicenow, "github:72d3162e-cc78-11e3-81ab-4c9367dc0958".to_owned(), "github:other".to_owned()];
    keys.map(|key| InboxEntry::run_of(tenant, &key.parse().unwrap())).into_iter()
}

#[derive(Clone)]
struct Delivery {
    source: &'static str,
    tenant: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Delivery {
    fn new(source: &'static str, tenant: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Self { source, tenant, headers, body: body.into() }
    }

    fn request(&self) -> Request<Bytes> {
        let request = Request::post(format!("/webhook/{}/{}", self.source, self.tenant));
        // No server accepts a value with a control character, so such a header does not arrive.
        let headers = self.headers.iter().filter(|(_, value)| HeaderValue::from_str(value).is_ok());
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        request.body(Bytes::from(self.body.clone())).unwrap()
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
        self
    }

    fn with(self, name: &str, value: impl Into<String>) -> Self {
        let mut sent = self.without(name);
        sent.headers.push((name.to_owned(), value.into()));
        sent
    }

    /// Signed with a timestamp `secs` from now.
    fn signed_at(self, secret: &str, secs: i64) -> Self {
        let timestamp = (NOW.0 / 1_000 + secs).to_string();
        let signature = sign(&secret.into(), &timestamp, &self.body);
        self.with("X-Countersign-Timestamp", timestamp).with("X-Countersign-Signature", signature)
    }

    fn signed(self, secret: &str) -> Self {
        self.signed_at(secret, 0)
    }

    fn signature(&self) -> String {
        self.headers.iter().find(|(name, _)| name == "X-Countersign-Signature").unwrap().1.clone()
    }

    fn with_signature(self, change: impl Fn(&str) -> String) -> Self {
        let changed = change(&self.signature());
        self.with("X-Countersign-Signature", changed)
    }
}

fn incident_json() -> Value {
    json!({ "table": "incident", "record": { "sys_id": SYS_ID, "sys_mod_count": "3", "priority": "1" } })
}

/// An incident from acme's ServiceNow.
fn incident() -> Delivery {
    servicenow(&incident_json())
}

fn servicenow(body: &Value) -> Delivery {
    Delivery::new("servicenow", "acme", body.to_string()).signed(ACME)
}

fn hook(body: impl Into<Vec<u8>>) -> Delivery {
    Delivery::new("webhook", "acme", body).signed(HOOK)
}

fn github(event: &str, delivery: &str, body: &Value) -> Delivery {
    let sent = Delivery::new("github", "acme", body.to_string());
    let signature = sign_body(&HUB.into(), &sent.body);
    sent.with("X-GitHub-Event", event)
        .with("X-GitHub-Delivery", delivery)
        .with("X-Hub-Signature-256", signature)
}

fn push() -> Delivery {
    github("push", "72d3162e-cc78-11e3-81ab-4c9367dc0958", &json!({ "ref": "refs/heads/main" }))
}

fn pull_request(delivery: &str, change: impl Fn(&mut Value)) -> Delivery {
    let head = json!({ "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e" });
    let mut body = json!({
        "action": "opened",
        "pull_request": { "number": 7, "title": "Fix it", "head": head },
        "repository": { "id": 42, "full_name": "acme/db" },
    });
    change(&mut body);
    github("pull_request", delivery, &body)
}

// Accepted deliveries.

#[tokio::test]
async fn pull_request_event_of_two_hooks_is_one_event() {
    let env = WebhookEnv::new();
    let of_hook = |delivery: &str, hook: u32| {
        pull_request(delivery, |body| {
            body["installation"] = json!({ "id": hook });
            body["hook_id"] = json!(hook);
        })
    };
    let first = env.accepts(&of_hook("d-1", 1)).await;
    for sent in [of_hook("d-2", 2), of_hook("d-1", 2), pull_request("d-3", |_| {})] {
        env.deduplicates(&sent, &first).await;
    }
    for (n, field) in ["/action", "/pull_request/head/sha", "/pull_request/title", "/pull_request/number"]
        .iter()
        .enumerate()
    {
        let other = pull_request(&format!("other-{n}"), |body| {
            let value = body.pointer_mut(field).unwrap();
            *value = if value.is_string() { json!("another") } else { json!(8) };
        });
        assert_ne!(env.accepts(&other).await.run, first.run, "{field}");
    }
}

#[tokio::test]
async fn incident_is_stored_under_its_record() {
    let env = WebhookEnv::new();
    let entry = env.accepts(&incident()).await;
    assert_eq!(entry.key.as_str(), format!("servicenow:incident:{SYS_ID}:3"));
    assert_eq!((entry.source, entry.topic.as_deref()), (Source::ServiceNow, Some("incident")));
    assert_eq!(json!(entry.body), json!({ "inline": incident_json() }));
}

#[tokio::test]
async fn valid_traceparent_is_passed_to_the_message() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (header, invalid) in [(parent, false), ("not a trace context", true)] {
        let env = WebhookEnv::new();
        let response = env.deliver(&incident().with("Traceparent", header)).await;
        assert_eq!(response.status(), 202, "{}", response.body());
        let received = env.store().receive(QueueName::Ingest, 10, Millis::mins(1), Duration::ZERO).await;
        let [message] = &*received.unwrap() else { panic!("one message") };
        let own = TraceContext::of_run(&message.run);
        assert_eq!(message.trace, if invalid { own } else { parent.parse().unwrap() });
    }
}

#[tokio::test]
async fn resent_incident_is_a_duplicate_and_a_change_is_not() {
    let env = WebhookEnv::new();
    let entry = env.accepts(&incident()).await;
    env.deduplicates(&incident().signed_at(ACME, 60), &entry).await;
    let mut changed = incident_json();
    changed["record"]["sys_mod_count"] = json!(4);
    assert_ne!(env.accepts(&servicenow(&changed)).await.run, entry.run);
}

#[tokio::test]
async fn record_without_mod_count_uses_update_time_or_body() {
    let env = WebhookEnv::new();
    let sent = |record: Value| servicenow(&json!({ "table": "incident", "record": record }));
    let noon = json!({ "sys_id": SYS_ID, "sys_updated_on": "2027-01-15 12:00:00" });
    let one = json!({ "sys_id": SYS_ID, "sys_updated_on": "2027-01-15 12:00:01" });
    let neither = json!({ "sys_id": SYS_ID });
    let first = env.accepts(&sent(noon.clone())).await;
    env.deduplicates(&sent(noon).signed_at(ACME, 1), &first).await;
    let runs = [first.run, env.accepts(&sent(one)).await.run, env.accepts(&sent(neither)).await.run];
    assert!(runs[0] != runs[1] && runs[1] != runs[2]);
}

#[tokio::test]
async fn push_is_stored_under_its_delivery_id() {
    let entry = WebhookEnv::new().accepts(&push()).await;
    assert_eq!(entry.key.as_str(), "github:72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(entry.topic.as_deref(), Some("push"));
    let seen = json!({ "event": "push", "body": { "ref": "refs/heads/main" } });
    assert_eq!(json!(entry.body), json!({ "inline": seen }));
}

#[tokio::test]
async fn webhook_key_is_its_id_or_its_body() {
    let env = WebhookEnv::new();
    let named = env.accepts(&hook(r#"{"id":"order-7","n":1}"#)).await;
    assert_eq!(json!(named.body), json!({ "inline": { "body": { "id": "order-7", "n": 1 } } }));
    assert_eq!(env.deliver(&hook(r#"{"id":"order-7","n":2}"#)).await.status(), 409);
    let unnamed = env.accepts(&hook(r#"{"n":1}"#)).await;
    env.deduplicates(&hook(r#"{ "n": 1 }"#), &unnamed).await;
    assert_ne!(env.accepts(&hook(r#"{"n":2}"#)).await.run, unnamed.run);
    assert_ne!(env.accepts(&hook(r#"{"id":7}"#)).await.run, env.accepts(&hook(r#"{"id":"7"}"#)).await.run);
}

#[tokio::test]
async fn event_names_its_external_record() {
    let env = WebhookEnv::new();
    let repository = json!({ "full_name": "acme/shop" });
    let on_github = |n: u32, event: &str, body: Value| github(event, &format!("delivery-{n}"), &body);
    let pull = json!({ "repository": repository, "pull_request": { "number": 7 } });
    let issue = json!({ "repository": repository, "issue": { "number": 8 }, "comment": { "id": 9 } });
    let odd = json!({ "ref": "refs/heads/main", "repository": { "full_name": "a b/<script>" } });
    let named = json!({ "ref": "refs/heads/main", "repository": repository });
    for (sent, record) in [
        (incident(), Some(format!("servicenow:incident:{SYS_ID}"))),
        (on_github(1, "pull_request", pull), Some("github:acme/shop#7".to_owned())),
        (on_github(2, "issue_comment", issue), Some("github:acme/shop#8".to_owned())),
        (on_github(3, "push", named), Some("github:acme/shop".to_owned())),
        (on_github(4, "push", odd), None),
        (push(), None),
        (hook(r#"{"id":1,"record":"jira:SHOP-7"}"#), Some("jira:SHOP-7".to_owned())),
        (hook(r#"{"id":2,"record":{"sys_id":"7"}}"#), None),
        (hook(r#"{"id":3,"record":"not a name"}"#), None),
    ] {
        let entry = env.accepts(&sent).await;
        assert_eq!(entry.record.map(|record| record.to_string()), record);
    }
}

#[tokio::test]
async fn basic_and_bearer_are_accepted_where_configured() {
    let env = WebhookEnv::new();
    let with_auth = |sent: Delivery, value: String| sent.with("Authorization", value);
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    let initech = Delivery::new("servicenow", "initech", incident_json().to_string());
    let umbrella = Delivery::new("webhook", "umbrella", "{}");
    for wrong in [
        with_auth(initech.clone(), basic("svc-initech:wrong horse battery")),
        with_auth(initech.clone(), basic(&PASSWORD[..PASSWORD.len() - 1])),
        with_auth(initech.clone(), format!("Basic {PASSWORD}")),
        with_auth(initech.clone(), format!("Bearer {PASSWORD}")),
        with_auth(umbrella.clone(), format!("Bearer {TOKEN} ")),
        with_auth(umbrella.clone(), "Bearer".to_owned()),
        initech.clone().signed(PASSWORD),
        umbrella.clone(),
    ] {
        assert_eq!(parts(env.rejects(&wrong, 401).await), parts(unauthenticated()));
    }
    env.accepts(&with_auth(initech, basic(PASSWORD))).await;
    env.accepts(&with_auth(umbrella, format!("bearer {TOKEN}"))).await;
}

#[test]
fn github_scheme_is_for_github_only() {
    let (tenant, secrets): (TenantId, _) = ("acme".parse().unwrap(), secrets(HUB));
    let rejected = |source, scheme| WebhookAuth::default().with(tenant.clone(), source, scheme).unwrap_err();
    for (source, scheme) in [
        (Source::GitHub, AuthScheme::Hmac(secrets.clone())),
        (Source::GitHub, AuthScheme::Bearer(secrets.clone())),
        (Source::Webhook, AuthScheme::GitHub(secrets.clone())),
    ] {
        assert!(matches!(rejected(source, scheme), InvalidWebhookAuth::Scheme { .. }));
    }
    let auth = WebhookAuth::default()
        .with(tenant.clone(), Source::GitHub, AuthScheme::GitHub(secrets.clone()))
        .unwrap();
    let again = auth.with(tenant.clone(), Source::GitHub, AuthScheme::GitHub(secrets));
    assert!(matches!(again, Err(InvalidWebhookAuth::DuplicateSource { .. })));
}

// Outcomes.

#[tokio::test]
async fn duplicate_of_a_rejected_event_reports_the_reason() {
    let env = WebhookEnv::new();
    for name in ["first", "second"] {
        env.apply_for(Source::Webhook, name).await;
    }
    let sent = hook(r#"{"n":1}"#);
    let entry = env.accepts(&sent).await;
    for _ in 1..TRIES_MAX {
        env.engine.admission().process_entry(&entry.run).await.unwrap();
        assert_eq!(env.deliver(&sent).await.status(), 202, "a duplicate starts another attempt");
    }
    env.engine.admission().process_entry(&entry.run).await.unwrap();
    let response = env.deliver(&sent).await;
    let body: Value = serde_json::from_str(response.body()).unwrap();
    let why = "workflows first and second both match it";
    let expected =
        json!({ "run": entry.run.run, "status": "duplicate", "outcome": "rejected", "reason": why });
    assert_eq!((response.status().as_u16(), body), (200, expected));
}

/// Two conditions can overlap unnoticed until an event matches both.
#[tokio::test]
async fn two_workflows_one_event() {
    let env = WebhookEnv::new();
    for name in ["first", "second"] {
        env.apply_for(Source::Webhook, name).await;
    }
    let entry = env.accepts(&hook(r#"{"n":1}"#)).await;

    env.engine.admission().process_entry(&entry.run).await.unwrap();

    assert_eq!(env.store().load(&entry.run).await.unwrap(), None);
    assert_eq!(env.store().runs(&testkit::acme(), RunQuery::newest(10)).await.unwrap().runs, []);
    let entry = env.store().entry(&entry.run).await.unwrap().unwrap();
    let InboxStatus::Rejected { reason, .. } = &entry.status else { panic!("{entry:?}") };
    assert_eq!(reason, "workflows first and second both match it");
}

/// Grace applies a workflow. A webhook starts its run, so that no user requested it.
#[tokio::test]
async fn applier_approves_webhook_run() {
    let env = WebhookEnv::new();
    let workflow = "workflow: w\nversion: 1\ntrigger: { webhook: {} }\n\
                    steps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
    env.handle("grace").apply(&testkit::plan(&env.engine, workflow)).await.unwrap();
    let entry = env.accepts(&hook(r#"{"n":1}"#)).await;
    env.engine.admission().process_entry(&entry.run).await.unwrap();
    assert_eq!(env.advance(&entry.run).await, RunStatus::WaitingApproval);

    env.assert_excluded(&entry.run, "grace", ParticipantRole::Applier).await;
    assert_eq!(env.status(&entry.run).await, RunStatus::WaitingApproval);

    env.approve(&entry.run, "ben").await.unwrap();
    assert_eq!(env.status(&entry.run).await, RunStatus::Succeeded);
}

/// The first workflow on the page.
fn example() -> &'static str {
    WORKFLOWS_PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap()
}

#[tokio::test]
async fn documented_example_starts_and_reads_the_event() {
    let env = WebhookEnv::new();
    env.apply(example()).await;
    let started = async |body: &str| {
        let entry = env.accepts(&hook(body)).await;
        env.engine.admission().process_entry(&entry.run).await.unwrap();
        env.store().load(&entry.run).await.unwrap()
    };
    let run = started(r#"{"id":"alarm-7","host":"db1","disk":"/var"}"#).await.unwrap();
    assert_eq!(run.workflow.as_str(), "restart-and-note");
    assert_eq!(started(r#"{"id":"alarm-8","host":"db1","disk":""}"#).await, None);
    assert!(!example().replace("trigger.body.", "").contains("trigger."), "{}", example());
}

// A store that fails.

#[tokio::test]
async fn event_is_accepted_only_after_it_is_durable() {
    let full = || Fault::Fail(StoreError::broken("keep it", "the disk is full"));
    for call in ["inbox.accept", "queue.send"] {
        let store = memory();
        let engine = builder().on(Intercepted::new(store.clone(), Faults::at(call, full)));
        let (auth, sent) = (webhook_auth(1), incident());
        let response = deliver(&engine, &auth, &sent.request()).await;
        assert_eq!(response.status(), 503, "{call}");
        assert!(response.headers().contains_key("retry-after"));
        assert!(!response.body().contains("disk"), "{}", response.body());
        assert_eq!(store.receive(QueueName::Ingest, 10, Millis(0), Duration::ZERO).await.unwrap(), []);
        // The sender retries, and the store answers.
        let env = WebhookEnv { env: builder().env_on(store), auth };
        assert!(matches!(env.deliver(&sent).await.status().as_u16(), 200 | 202));
        assert_eq!(env.messages().await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_store_returns_503_and_loses_nothing() {
    let store = memory();
    // It stores the entry and never answers.
    let faults = Faults::at("inbox.accept", || Fault::NoReply);
    let (engine, auth, sent) =
        (builder().on(Intercepted::new(store.clone(), faults)), webhook_auth(1), incident());
    let response = deliver(&engine, &auth, &sent.request()).await;
    assert_eq!(response.status(), 503, "{}", response.body());
    assert!(response.headers().contains_key("retry-after"));
    let env = WebhookEnv { env: builder().env_on(store), auth };
    assert_eq!(env.deliver(&sent).await.status(), 202);
    assert_eq!(env.messages().await.len(), 1);
}

// Webhook forgery and replay.

#[tokio::test]
async fn unknown_tenant_source_and_signature_look_the_same() {
    let env = WebhookEnv::new();
    let forged = incident().signed("a secret that is not configured");
    let sent_to = |source, tenant| Delivery { source, tenant, ..incident() };
    for sent in [
        forged,
        sent_to("servicenow", "unknown"),
        sent_to("servicenow", "../acme"),
        sent_to("servicenow", ""),
        sent_to("github", "umbrella"),
        sent_to("jira", "acme"),
        sent_to("", "acme"),
        incident().signed("requests signed with the decoy are rejected"),
        Delivery { tenant: "unknown", ..incident() }.signed("requests signed with the decoy are rejected"),
    ] {
        assert_eq!(parts(env.rejects(&sent, 401).await), parts(unauthenticated()));
    }
}

#[tokio::test]
async fn sig_missing() {
    WebhookEnv::new().rejects(&incident().without("X-Countersign-Signature"), 401).await;
}

#[tokio::test]
async fn sig_empty() {
    WebhookEnv::new().rejects(&incident().with_signature(|_| String::new()), 401).await;
}

#[tokio::test]
async fn sig_wrong_version_v1() {
    let env = WebhookEnv::new();
    env.rejects(&incident().with_signature(|right| right.replace("v0=", "v1=")), 401).await;
    env.rejects(&incident().with_signature(|right| right.replace("v0=", "sha256=")), 401).await;
}

#[tokio::test]
async fn sig_short_63() {
    let env = WebhookEnv::new();
    env.rejects(&incident().with_signature(|right| right[..right.len() - 1].to_owned()), 401).await;
    env.rejects(&incident().with_signature(|right| format!("{right}0")), 401).await;
}

#[tokio::test]
async fn sig_nonhex() {
    let env = WebhookEnv::new();
    let last = |with: &'static str| move |right: &str| format!("{}{with}", &right[..right.len() - 1]);
    for with in ["g", " ", "é", "\0"] {
        env.rejects(&incident().with_signature(last(with)), 401).await;
    }
    env.rejects(&incident().with_signature(str::to_uppercase), 401).await;
}

#[tokio::test]
async fn sig_prefix_only() {
    let env = WebhookEnv::new();
    env.rejects(&incident().with_signature(|_| "v0=".to_owned()), 401).await;
    env.rejects(&incident().with_signature(|right| right[..20].to_owned()), 401).await;
}

#[tokio::test]
async fn duplicate_signature_header_is_rejected() {
    let mut sent = incident();
    sent.headers.push(("x-countersign-signature".to_owned(), sent.signature()));
    WebhookEnv::new().rejects(&sent, 401).await;
}

#[tokio::test]
async fn sig_right_for_reencoded_body() {
    let pretty = serde_json::to_vec_pretty(&incident_json()).unwrap();
    WebhookEnv::new().rejects(&Delivery { body: pretty, ..incident() }, 401).await;
}

#[tokio::test]
async fn sig_valid_other_tenant() {
    let env = WebhookEnv::new();
    env.rejects(&Delivery { tenant: "umbrella", ..incident() }, 401).await;
    env.rejects(&incident().signed(UMBRELLA), 401).await;
    // A signature for another source of the same tenant is not valid either.
    env.rejects(&incident().signed(HOOK), 401).await;
}

#[tokio::test]
async fn sig_valid_previous_secret_in_grace() {
    WebhookEnv::new().accepts(&incident().signed(ACME_BEFORE)).await;
}

#[tokio::test]
async fn sig_valid_previous_secret_after_grace() {
    let env = WebhookEnv { auth: webhook_auth(0), ..WebhookEnv::new() };
    env.rejects(&incident().signed(ACME_BEFORE), 401).await;
}

#[tokio::test]
async fn sig_sha1_header_only() {
    let env = WebhookEnv::new();
    let sha1 = "sha1=2fd4e1c67a2d28fced849ee1bb76e7391b93eb12";
    env.rejects(&push().without("X-Hub-Signature-256").with("X-Hub-Signature", sha1), 401).await;
    env.rejects(&push().with("X-Hub-Signature-256", sha1), 401).await;
}

#[tokio::test]
async fn ts_missing() {
    WebhookEnv::new().rejects(&incident().without("X-Countersign-Timestamp"), 401).await;
}

#[tokio::test]
async fn ts_301s_old() {
    let env = WebhookEnv::new();
    env.rejects(&incident().signed_at(ACME, -301), 401).await;
    env.accepts(&incident().signed_at(ACME, -300)).await;
}

#[tokio::test]
async fn ts_301s_future() {
    let env = WebhookEnv::new();
    env.rejects(&incident().signed_at(ACME, 301), 401).await;
    env.accepts(&incident().signed_at(ACME, 300)).await;
}

#[tokio::test]
async fn ts_i64_overflow() {
    let env = WebhookEnv::new();
    for time in ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e10", ""] {
        let signature = sign(&ACME.into(), time, &incident().body);
        let sent = incident().with("X-Countersign-Timestamp", time).with_signature(|_| signature.clone());
        env.rejects(&sent, 401).await;
    }
}

#[tokio::test]
async fn replay_same_bytes_within_window() {
    let env = WebhookEnv::new();
    for source in Source::WEBHOOKS {
        env.apply_for(source, source.as_str()).await;
    }
    for sent in [incident(), push(), hook(r#"{"n":1}"#)] {
        let entry = env.accepts(&sent).await;
        for status in [202, 202, 200] {
            if status == 200 {
                env.engine.admission().process_entry(&entry.run).await.unwrap();
            }
            let response = env.deliver(&sent).await;
            assert_eq!(response.status().as_u16(), status, "{}", response.body());
            assert!(response.body().contains(entry.run.run.as_str()), "{}", response.body());
        }
    }
}

#[tokio::test]
async fn replay_new_delivery_id_same_mac() {
    let env = WebhookEnv::new();
    let entry = env.accepts(&push()).await;
    env.deduplicates(&push(), &entry).await;
    // The event name is not signed: changing it does not create another request.
    assert_eq!(env.deliver(&push().with("X-GitHub-Event", "unlisted")).await.status(), 409);
    // An event without a time can happen again, with the same bytes and an id of its own.
    assert_ne!(env.accepts(&push().with("X-GitHub-Delivery", "other")).await.run, entry.run);
    // A pull request event within five seconds is the same one.
    let pull = env.accepts(&pull_request("d-1", |_| {})).await;
    env.deduplicates(&pull_request("d-2", |_| {}), &pull).await;
}

/// Neither the event name nor the delivery id is signed, but the body shows its event.
#[tokio::test]
async fn replay_as_another_event() {
    let env = WebhookEnv::new();
    env.apply_for(Source::GitHub, "deploy").await;
    for event in ["deployment", "pull_request", "create", "repository", "workflow_run"] {
        env.rejects(&push().with("X-GitHub-Event", event).with("X-GitHub-Delivery", "other"), 400).await;
    }
    let review = pull_request("other", |body| body["review"] = json!({ "state": "approved" }));
    env.rejects(&review, 400).await;
    env.accepts(&review.with("X-GitHub-Event", "pull_request_review")).await;
    env.accepts(&push()).await;
}

#[tokio::test]
async fn same_delivery_id_other_body() {
    let env = WebhookEnv::new();
    let entry = env.accepts(&push()).await;
    let other = github("push", "72d3162e-cc78-11e3-81ab-4c9367dc0958", &json!({ "ref": "refs/heads/evil" }));
    let mut incident = incident_json();
    env.accepts(&servicenow(&incident)).await;
    incident["record"]["priority"] = json!("5");
    for sent in [other, servicenow(&incident)] {
        let response = env.deliver(&sent).await;
        assert_eq!(response.status(), 409, "{}", response.body());
        let problem: Value = serde_json::from_str(response.body()).unwrap();
        assert_eq!(problem["code"], "IDEMPOTENCY_CONFLICT");
    }
    assert_eq!(env.store().entry(&entry.run).await.unwrap(), Some(entry));
}

#[tokio::test]
async fn github_ping() {
    let env = WebhookEnv::new();
    let ping = github("ping", "other", &json!({ "zen": "Design for failure.", "hook_id": 1 }));
    env.rejects(&ping, 200).await;
    let forged = ping.with("X-Hub-Signature-256", sign_body(&"the secret of another sender".into(), b"{}"));
    env.rejects(&forged, 401).await;
}

#[tokio::test]
async fn content_type_mismatch_form_vs_json() {
    let env = WebhookEnv::new();
    let form = format!("payload={}", incident_json());
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""] {
        env.rejects(&incident().with("Content-Type", kind), 415).await;
        env.rejects(&push().with("Content-Type", kind), 415).await;
    }
    env.rejects(&incident().without("Content-Type"), 415).await;
    env.rejects(&Delivery::new("servicenow", "acme", form).signed(ACME), 400).await;
    env.accepts(&incident().with("Content-Type", "Application/JSON; charset=utf-8")).await;
}

#[tokio::test]
async fn path_tenant_differs_from_body_tenant() {
    let env = WebhookEnv::new();
    let named = |tenant: Value| {
        let mut body = incident_json();
        body["tenant"] = tenant;
        servicenow(&body)
    };
    for tenant in [json!("umbrella"), json!("ACME"), json!(""), json!(null), json!(["acme"])] {
        env.rejects(&named(tenant), 400).await;
    }
    env.rejects(&hook(r#"{"tenant":"umbrella"}"#), 400).await;
    env.accepts(&named(json!("acme"))).await;
}

// Parsing and size.

#[tokio::test]
async fn body_empty() {
    let env = WebhookEnv::new();
    for body in ["", " ", "\n"] {
        env.rejects(&Delivery::new("servicenow", "acme", body).signed(ACME), 400).await;
        env.rejects(&hook(body), 400).await;
    }
}

#[tokio::test]
async fn body_26MB() {
    let env = WebhookEnv::new();
    // The size is checked before the signature: an unauthenticated sender learns only the limit.
    env.rejects(&Delivery::new("servicenow", "acme", vec![b' '; 26 * 1024 * 1024]), 413).await;
    env.rejects(&hook(text_of(BODY_BYTES_MAX + 1)), 413).await;
    env.accepts(&hook(text_of(BODY_BYTES_MAX))).await;
}

fn text_of(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

#[tokio::test]
async fn json_depth_10000() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    WebhookEnv::new().rejects(&hook(deep), 400).await;
}

#[tokio::test]
async fn json_duplicate_keys() {
    let env = WebhookEnv::new();
    let twice = r#"{"table":"incident","table":"change_request","record":{"sys_id":"a"}}"#;
    env.rejects(&Delivery::new("servicenow", "acme", twice).signed(ACME), 400).await;
    let tenants = r#"{"tenant":"acme","tenant":"umbrella","id":"a"}"#;
    env.rejects(&hook(tenants), 400).await;
}

#[tokio::test]
async fn utf8_invalid() {
    WebhookEnv::new().rejects(&hook(&b"{\"id\":\"\xff\xfe\"}"[..]), 400).await;
}

#[tokio::test]
async fn nul_in_string() {
    let env = WebhookEnv::new();
    // JSON has no unescaped NUL. An escaped one is a character like any other.
    env.rejects(&hook(&b"{\"id\":\"a\0b\"}"[..]), 400).await;
    let entry = env.accepts(&hook(r#"{"id":"a\u0000b"}"#)).await;
    assert_eq!(json!(entry.body), json!({ "inline": { "body": { "id": "a\0b" } } }));
}

#[tokio::test]
async fn json_lone_surrogate() {
    WebhookEnv::new().rejects(&hook(r#"{"id":"\ud800"}"#), 400).await;
}

#[tokio::test]
async fn key_delimiter_in_id() {
    let env = WebhookEnv::new();
    let record = |table: &str, sys_id: &str| {
        servicenow(&json!({ "table": table, "record": { "sys_id": sys_id, "sys_mod_count": "3" } }))
    };
    for bad in [":", "#", "a:b", "incident:1", "a b", "a/b", "ä", "a\nb", ""] {
        env.rejects(&record("incident", bad), 400).await;
        env.rejects(&record(bad, "a"), 400).await;
        env.rejects(&push().with("X-GitHub-Delivery", bad), 400).await;
        env.rejects(&push().with("X-GitHub-Event", bad), 400).await;
    }
    for count in [json!("1:2"), json!("-1"), json!(""), json!(1.5), json!(null)] {
        let record = json!({ "sys_id": SYS_ID, "sys_mod_count": count });
        env.rejects(&servicenow(&json!({ "table": "incident", "record": record })), 400).await;
    }
    // A sender's own request id can contain any character: it is hashed.
    let delimited = env.accepts(&hook(r#"{"id":"a:b#c"}"#)).await;
    assert!(!delimited.key.as_str().contains("a:b"), "{}", delimited.key);
}

#[tokio::test]
async fn id_2049_bytes() {
    let env = WebhookEnv::new();
    let long = "a".repeat(2_049);
    env.rejects(&hook(json!({ "id": long }).to_string()), 400).await;
    env.rejects(&push().with("X-GitHub-Delivery", long.as_str()), 400).await;
    let record = json!({ "sys_id": long, "sys_mod_count": "3" });
    env.rejects(&servicenow(&json!({ "table": "incident", "record": record })), 400).await;
    let tenant: &'static str = Box::leak(long.into_boxed_str());
    env.rejects(&Delivery { tenant, ..incident() }, 401).await;
}

#[tokio::test]
async fn invalid_body_is_rejected_without_echoing_it() {
    let env = WebhookEnv::new();
    for body in
        [json!([]), json!("secret text"), json!({}), json!({ "table": "incident", "record": "secret text" })]
    {
        let response = env.rejects(&servicenow(&body), 400).await;
        assert!(!response.body().contains("secret text"), "{}", response.body());
    }
    env.rejects(&github("push", "other", &json!(["a list"])), 400).await;
    env.rejects(&hook(r#"{"id":["a"]}"#), 400).await;
}
