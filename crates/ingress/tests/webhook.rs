//! What comes in through the webhook door, and above all what does not. The cases with short names are those of
//! the list of threats, under exactly these names.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(non_snake_case, reason = "a case is called what the list of threats calls it")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use connectors::Toolbox;
use countersign_ingress::http::raw_body;
use countersign_ingress::webhook::{
    BODY_BYTES_MAX, InvalidWebhookAuth, Proof, Request, Response, WebhookAuth, deliver, unproved,
};
use domain::inbox::TRIES_MAX;
use domain::{
    Cause, InboxEntry, Initiator, Job, Millis, QueueName, RunKey, Source, TenantId, Timestamp, ToolName,
    TraceContext,
};
use engine::{Engine, Parts, Timing};
use serde_json::{Value, json};
use signing::{Secrets, sign, sign_body};
use store::{
    Clock, Inbox as _, Intercept, Intercepted, Ledger as _, Queue as _, RunQuery, Site, SqliteOptions,
    SqliteStore, Store, StoreError,
};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

const ACME: &str = "the secret of acme's ServiceNow";
const ACME_BEFORE: &str = "what acme signed with before";
const UMBRELLA: &str = "the secret of umbrella's ServiceNow";
const HUB: &str = "the secret of acme's GitHub";
const HOOK: &str = "the secret of acme's own scripts";
const TOKEN: &str = "umbrella-shows-this-token";
const PASSWORD: &str = "svc-initech:correct horse battery";

/// What people read who write a workflow.
const PAGE: &str = include_str!("../../../docs/workflows.md");

const SYS_ID: &str = "9d385017c611228701d22104cc95c371";

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        NOW
    }
}

fn secrets(secret: &str) -> Secrets {
    Secrets::new(secret.into()).unwrap()
}

/// `grace_ms` from now the secret before acme's current one ends.
fn doors(grace_ms: i64) -> WebhookAuth {
    let acme = secrets(ACME).and_previous(ACME_BEFORE.into(), Timestamp(NOW.0 + grace_ms)).unwrap();
    [
        ("acme", Source::ServiceNow, Proof::Signed(acme)),
        ("umbrella", Source::ServiceNow, Proof::Signed(secrets(UMBRELLA))),
        ("initech", Source::ServiceNow, Proof::Basic(secrets(PASSWORD))),
        ("acme", Source::GitHub, Proof::GitHub(secrets(HUB))),
        ("acme", Source::Webhook, Proof::Signed(secrets(HOOK))),
        ("umbrella", Source::Webhook, Proof::Bearer(secrets(TOKEN))),
    ]
    .into_iter()
    .try_fold(WebhookAuth::default(), |doors, (tenant, source, proof)| {
        doors.and(tenant.parse().unwrap(), source, proof)
    })
    .unwrap()
}

fn engine_on<S: Store>(store: S) -> Engine<S> {
    Engine::new(Parts {
        store: Arc::new(store),
        tools: Toolbox::default(),
        clock: Arc::new(Noon),
        me: "door".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

/// The doors, and an engine behind them with nothing in it.
struct Scene {
    engine: Engine<SqliteStore>,
    doors: WebhookAuth,
}

impl Scene {
    fn set() -> Self {
        let store = SqliteStore::memory(SqliteOptions::default()).unwrap();
        Self { engine: engine_on(store), doors: doors(1) }
    }

    async fn deliver(&self, sent: &Sent) -> Response {
        deliver(&self.engine, &self.doors, sent.request()).await
    }

    /// Puts a workflow of acme's to use.
    async fn apply(&self, source: &str) {
        let tools = ["http.request", "transform"].map(|tool| ToolName::new(tool).unwrap());
        let plan = workflow::parse(source, &BTreeSet::from(tools)).unwrap();
        let ada = Initiator::new(Cause::User, "ada");
        self.engine.apply(&"acme".parse().unwrap(), &plan, ada).await.unwrap();
    }

    /// Puts one to use that wants whatever comes from `source`.
    async fn apply_for(&self, source: Source, name: &str) {
        let workflow = format!(
            "workflow: {name}\nversion: 1\ntrigger: {{ {source}: {{}} }}\n\
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

    /// It is refused with `status`, nothing is stored and nobody is told anything.
    async fn refuses(&self, sent: &Sent, status: u16) -> Response {
        let response = self.deliver(sent).await;
        assert_eq!(response.status, status, "{}", response.body);
        self.has_nothing().await;
        response
    }

    async fn has_nothing(&self) {
        assert_eq!(self.messages().await, []);
        for tenant in ["acme", "umbrella", "initech"] {
            let tenant: TenantId = tenant.parse().unwrap();
            for run in usual_runs(&tenant) {
                assert_eq!(self.engine.store().entry(&run).await.unwrap(), None);
            }
            assert_eq!(self.engine.store().runs(&tenant, RunQuery::newest(10)).await.unwrap().runs, []);
        }
    }

    /// It is accepted as new, kept, and one message says so.
    async fn accepts(&self, sent: &Sent) -> InboxEntry {
        let response = self.deliver(sent).await;
        assert_eq!(response.status, 202, "{}", response.body);
        let body: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(body["status"], "accepted");
        let run = RunKey {
            tenant: sent.tenant.parse().unwrap(),
            run: body["run"].as_str().unwrap().parse().unwrap(),
        };
        assert!(self.messages().await.contains(&(run.clone(), Job::Start)));
        self.engine.store().entry(&run).await.unwrap().unwrap()
    }

    /// It is recognised as `entry`, and is no other.
    async fn knows(&self, sent: &Sent, entry: &InboxEntry) {
        let response = self.deliver(sent).await;
        let body: Value = serde_json::from_str(&response.body).unwrap();
        let expected = json!({ "run": entry.run.run, "status": "duplicate", "outcome": "pending" });
        assert_eq!((response.status, body), (202, expected));
        let told: Vec<_> = self.messages().await.into_iter().filter(|(run, _)| *run != entry.run).collect();
        assert_eq!(told, []);
        assert_eq!(self.engine.store().entry(&entry.run).await.unwrap().as_ref(), Some(entry));
    }
}

/// The runs that the usual deliveries of these tests would start.
fn usual_runs(tenant: &TenantId) -> impl Iterator<Item = RunKey> {
    let servicenow = format!("servicenow:incident:{SYS_ID}:3");
    let keys =
        [servicenow, "github:72d3162e-cc78-11e3-81ab-4c9367dc0958".to_owned(), "github:other".to_owned()];
    keys.map(|key| InboxEntry::run_of(tenant, &key.parse().unwrap())).into_iter()
}

/// A request on its way.
#[derive(Clone)]
struct Sent {
    source: &'static str,
    tenant: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Sent {
    fn new(source: &'static str, tenant: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Self { source, tenant, headers, body: body.into() }
    }

    fn request(&self) -> Request<'_> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Request { source: self.source, tenant: self.tenant, headers, body: &self.body }
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

    /// Signed as we ask, `secs` from now.
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

/// An incident, as acme's ServiceNow would send it.
fn incident() -> Sent {
    servicenow(&incident_json())
}

fn servicenow(body: &Value) -> Sent {
    Sent::new("servicenow", "acme", body.to_string()).signed(ACME)
}

fn hook(body: impl Into<Vec<u8>>) -> Sent {
    Sent::new("webhook", "acme", body).signed(HOOK)
}

fn github(event: &str, delivery: &str, body: &Value) -> Sent {
    let sent = Sent::new("github", "acme", body.to_string());
    let signature = sign_body(&HUB.into(), &sent.body);
    sent.with("X-GitHub-Event", event)
        .with("X-GitHub-Delivery", delivery)
        .with("X-Hub-Signature-256", signature)
}

fn push() -> Sent {
    github("push", "72d3162e-cc78-11e3-81ab-4c9367dc0958", &json!({ "ref": "refs/heads/main" }))
}

fn pull_request(delivery: &str, change: impl Fn(&mut Value)) -> Sent {
    let head = json!({ "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e" });
    let mut body = json!({
        "action": "opened",
        "pull_request": { "number": 7, "title": "Fix it", "head": head },
        "repository": { "id": 42, "full_name": "acme/db" },
    });
    change(&mut body);
    github("pull_request", delivery, &body)
}

// What is accepted.

#[tokio::test]
async fn a_pull_request_is_known_by_the_name_of_its_repository_where_that_has_no_number() {
    let nameless = |body: &mut Value| drop(body["repository"].as_object_mut().unwrap().remove("id"));
    let scene = Scene::set();
    let first = scene.accepts(&pull_request("d-1", nameless)).await;
    let again = pull_request("d-2", |body| {
        nameless(body);
        body["pull_request"]["title"] = json!("Mend it");
    });
    assert!(scene.deliver(&again).await.body.contains(first.run.run.as_str()));
    let elsewhere = pull_request("d-3", |body| {
        nameless(body);
        body["repository"]["full_name"] = json!("acme/web");
    });
    assert_ne!(scene.accepts(&elsewhere).await.run, first.run);
}

#[tokio::test]
async fn what_happened_to_a_pull_request_is_one_request_however_it_is_told_within_five_seconds() {
    let scene = Scene::set();
    let first = scene.accepts(&pull_request("d-1", |_| {})).await;
    let again =
        scene.deliver(&pull_request("d-2", |body| body["pull_request"]["title"] = json!("Mend it"))).await;
    assert!((200..=202).contains(&again.status), "{}", again.body);
    let told: Value = serde_json::from_str(&again.body).unwrap();
    assert_eq!((&told["run"], &told["status"]), (&json!(first.run.run), &json!("duplicate")));
    for (delivery, field) in
        [("d-3", "/action"), ("d-4", "/pull_request/head/sha"), ("d-5", "/pull_request/number")]
    {
        let other = pull_request(delivery, |body| {
            let value = body.pointer_mut(field).unwrap();
            *value = if value.is_string() { json!("another") } else { json!(8) };
        });
        assert_ne!(scene.accepts(&other).await.run, first.run, "{field}");
    }
}

#[tokio::test]
async fn two_labels_or_people_that_a_pull_request_gets_at_once_are_two_things_that_happened() {
    let scene = Scene::set();
    for what in
        ["label", "assignee", "requested_reviewer", "requested_team", "milestone", "review", "comment"]
    {
        let told = |delivery: &str, id: u64| {
            let delivery = format!("{what}-{delivery}");
            pull_request(&delivery, |body| body[what] = json!({ "id": id, "url": delivery }))
        };
        let first = scene.accepts(&told("1", 1)).await;
        assert_ne!(scene.accepts(&told("2", 2)).await.run, first.run, "{what}");
        assert!(scene.deliver(&told("3", 1)).await.body.contains(first.run.run.as_str()), "{what}");
    }
    // A thread has no number.
    let thread = |delivery, node| pull_request(delivery, |body| body["thread"] = json!({ "node_id": node }));
    let first = scene.accepts(&thread("t-1", "PRRT_1")).await;
    assert_ne!(scene.accepts(&thread("t-2", "PRRT_2")).await.run, first.run);
}

#[tokio::test]
async fn an_incident_is_kept_under_its_record_and_a_workflow_sees_what_came() {
    let scene = Scene::set();
    let entry = scene.accepts(&incident()).await;
    assert_eq!(entry.key.as_str(), format!("servicenow:incident:{SYS_ID}:3"));
    assert_eq!((entry.source, entry.about.as_deref()), (Source::ServiceNow, Some("incident")));
    assert_eq!(json!(entry.body), json!({ "inline": incident_json() }));
}

#[tokio::test]
async fn what_a_sender_tells_of_its_own_work_goes_with_the_message_if_it_can_be_read() {
    let told = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (header, unusable) in [(told, false), ("not a trace context", true)] {
        let scene = Scene::set();
        let response = scene.deliver(&incident().with("Traceparent", header)).await;
        assert_eq!(response.status, 202, "{}", response.body);
        let received =
            scene.engine.store().receive(QueueName::Ingest, 10, Millis::mins(1), Duration::ZERO).await;
        let [message] = &*received.unwrap() else { panic!("one message") };
        let own = TraceContext::of_run(&message.run);
        assert_eq!(message.trace, if unusable { own } else { told.parse().unwrap() });
    }
}

#[tokio::test]
async fn an_incident_that_is_sent_again_later_is_the_same_and_a_change_of_it_is_another() {
    let scene = Scene::set();
    let entry = scene.accepts(&incident()).await;
    scene.knows(&incident().signed_at(ACME, 60), &entry).await;
    let mut changed = incident_json();
    changed["record"]["sys_mod_count"] = json!(4);
    assert_ne!(scene.accepts(&servicenow(&changed)).await.run, entry.run);
}

#[tokio::test]
async fn a_record_without_a_count_is_told_apart_by_when_it_was_changed_or_by_all_of_it() {
    let scene = Scene::set();
    let sent = |record: Value| servicenow(&json!({ "table": "incident", "record": record }));
    let noon = json!({ "sys_id": SYS_ID, "sys_updated_on": "2027-01-15 12:00:00" });
    let one = json!({ "sys_id": SYS_ID, "sys_updated_on": "2027-01-15 12:00:01" });
    let neither = json!({ "sys_id": SYS_ID });
    let first = scene.accepts(&sent(noon.clone())).await;
    scene.knows(&sent(noon).signed_at(ACME, 1), &first).await;
    let runs = [first.run, scene.accepts(&sent(one)).await.run, scene.accepts(&sent(neither)).await.run];
    assert!(runs[0] != runs[1] && runs[1] != runs[2]);
}

#[tokio::test]
async fn a_push_is_kept_under_its_delivery_with_the_event_beside_the_body() {
    let entry = Scene::set().accepts(&push()).await;
    assert_eq!(entry.key.as_str(), "github:72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(entry.about.as_deref(), Some("push"));
    let seen = json!({ "event": "push", "body": { "ref": "refs/heads/main" } });
    assert_eq!(json!(entry.body), json!({ "inline": seen }));
}

#[tokio::test]
async fn what_anybody_sends_is_named_by_its_id_or_by_all_of_it() {
    let scene = Scene::set();
    let named = scene.accepts(&hook(r#"{"id":"order-7","n":1}"#)).await;
    assert_eq!(json!(named.body), json!({ "inline": { "body": { "id": "order-7", "n": 1 } } }));
    assert_eq!(scene.deliver(&hook(r#"{"id":"order-7","n":2}"#)).await.status, 409);
    let unnamed = scene.accepts(&hook(r#"{"n":1}"#)).await;
    scene.knows(&hook(r#"{ "n": 1 }"#), &unnamed).await;
    assert_ne!(scene.accepts(&hook(r#"{"n":2}"#)).await.run, unnamed.run);
    assert_ne!(
        scene.accepts(&hook(r#"{"id":7}"#)).await.run,
        scene.accepts(&hook(r#"{"id":"7"}"#)).await.run
    );
}

#[tokio::test]
async fn what_came_names_the_record_outside_that_it_is_about() {
    let scene = Scene::set();
    let repository = json!({ "full_name": "acme/shop" });
    let on_github = |n: u32, event: &str, body: Value| github(event, &format!("delivery-{n}"), &body);
    let pull = json!({ "repository": repository, "pull_request": { "number": 7 } });
    let issue = json!({ "repository": repository, "issue": { "number": 8 }, "comment": { "id": 9 } });
    let odd = json!({ "repository": { "full_name": "a b/<script>" }, "n": 1 });
    for (sent, record) in [
        (incident(), Some(format!("servicenow:incident:{SYS_ID}"))),
        (on_github(1, "pull_request", pull), Some("github:acme/shop#7".to_owned())),
        (on_github(2, "issue_comment", issue), Some("github:acme/shop#8".to_owned())),
        (on_github(3, "push", json!({ "repository": repository })), Some("github:acme/shop".to_owned())),
        (on_github(4, "push", odd), None),
        (push(), None),
        (hook(r#"{"id":1,"record":"jira:SHOP-7"}"#), Some("jira:SHOP-7".to_owned())),
        (hook(r#"{"id":2,"record":{"sys_id":"7"}}"#), None),
        (hook(r#"{"id":3,"record":"not a name"}"#), None),
    ] {
        let entry = scene.accepts(&sent).await;
        assert_eq!(entry.record.map(|record| record.to_string()), record);
    }
}

#[tokio::test]
async fn whoever_cannot_sign_may_show_a_password_or_a_token_where_that_is_agreed() {
    let scene = Scene::set();
    let shown = |sent: Sent, value: String| sent.with("Authorization", value);
    let basic = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
    let initech = Sent::new("servicenow", "initech", incident_json().to_string());
    let umbrella = Sent::new("webhook", "umbrella", "{}");
    for wrong in [
        shown(initech.clone(), basic("svc-initech:wrong horse battery")),
        shown(initech.clone(), basic(&PASSWORD[..PASSWORD.len() - 1])),
        shown(initech.clone(), format!("Basic {PASSWORD}")),
        shown(initech.clone(), format!("Bearer {PASSWORD}")),
        shown(umbrella.clone(), format!("Bearer {TOKEN} ")),
        shown(umbrella.clone(), "Bearer".to_owned()),
        initech.clone().signed(PASSWORD),
        umbrella.clone(),
    ] {
        assert_eq!(scene.refuses(&wrong, 401).await, unproved());
    }
    scene.accepts(&shown(initech, basic(PASSWORD))).await;
    scene.accepts(&shown(umbrella, format!("bearer {TOKEN}"))).await;
}

#[test]
fn github_signs_as_github_does_and_nobody_else() {
    let (tenant, secrets): (TenantId, _) = ("acme".parse().unwrap(), secrets(HUB));
    let refused = |source, proof| WebhookAuth::default().and(tenant.clone(), source, proof).unwrap_err();
    for (source, proof) in [
        (Source::GitHub, Proof::Signed(secrets.clone())),
        (Source::GitHub, Proof::Bearer(secrets.clone())),
        (Source::Webhook, Proof::GitHub(secrets.clone())),
    ] {
        assert!(matches!(refused(source, proof), InvalidWebhookAuth::Proof { .. }));
    }
    let doors =
        WebhookAuth::default().and(tenant.clone(), Source::GitHub, Proof::GitHub(secrets.clone())).unwrap();
    let again = doors.and(tenant.clone(), Source::GitHub, Proof::GitHub(secrets));
    assert!(matches!(again, Err(InvalidWebhookAuth::Twice { .. })));
}

// What becomes of it.

#[tokio::test]
async fn whoever_sends_again_what_could_not_start_a_run_is_told_why() {
    let scene = Scene::set();
    for name in ["first", "second"] {
        scene.apply_for(Source::Webhook, name).await;
    }
    let sent = hook(r#"{"n":1}"#);
    let entry = scene.accepts(&sent).await;
    for _ in 1..TRIES_MAX {
        scene.engine.begin(&entry.run).await.unwrap();
        assert_eq!(scene.deliver(&sent).await.status, 202, "it is taken up again");
    }
    scene.engine.begin(&entry.run).await.unwrap();
    let response = scene.deliver(&sent).await;
    let body: Value = serde_json::from_str(&response.body).unwrap();
    let why = "workflows first and second both want it";
    let expected =
        json!({ "run": entry.run.run, "status": "duplicate", "outcome": "rejected", "reason": why });
    assert_eq!((response.status, body), (200, expected));
}

/// The workflow that the page begins with.
fn example() -> &'static str {
    PAGE.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap()
}

#[tokio::test]
async fn the_example_on_the_page_begins_with_what_it_wants_and_reads_what_the_door_hands_on() {
    let scene = Scene::set();
    scene.apply(example()).await;
    let begun = async |body: &str| {
        let entry = scene.accepts(&hook(body)).await;
        scene.engine.begin(&entry.run).await.unwrap();
        scene.engine.store().load(&entry.run).await.unwrap()
    };
    let run = begun(r#"{"id":"alarm-7","host":"db1","disk":"/var"}"#).await.unwrap();
    assert_eq!(run.workflow.as_str(), "restart-and-note");
    assert_eq!(begun(r#"{"id":"alarm-8","host":"db1","disk":""}"#).await, None);
    assert!(!example().replace("trigger.body.", "").contains("trigger."), "{}", example());
}

// A store that does not answer.

struct Down(&'static str);

impl Intercept for Down {
    type Pass = ();

    async fn before(&self, site: &Site) -> Result<(), StoreError> {
        if site.name == self.0 { Err(StoreError::broken("keep it", "the disk is full")) } else { Ok(()) }
    }

    async fn after(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_is_accepted_before_it_is_durable_and_announced() {
    for call in ["inbox.accept", "queue.send"] {
        let store = SqliteStore::memory(SqliteOptions::default()).unwrap();
        let engine = engine_on(Intercepted::new(store.clone(), Down(call)));
        let (doors, sent) = (doors(1), incident());
        let response = deliver(&engine, &doors, sent.request()).await;
        assert_eq!(response.status, 503, "{call}");
        assert!(response.headers.iter().any(|(name, _)| *name == "retry-after"));
        assert!(!response.body.contains("disk"), "{}", response.body);
        assert_eq!(store.receive(QueueName::Ingest, 10, Millis(0), Duration::ZERO).await.unwrap(), []);
        // The sender comes again, and this time the store answers.
        let scene = Scene { engine: engine_on(store), doors };
        assert!(matches!(scene.deliver(&sent).await.status, 200 | 202));
        assert_eq!(scene.messages().await.len(), 1);
    }
}

/// A store that keeps what came and then does not answer.
struct Mute;

impl Intercept for Mute {
    type Pass = bool;

    async fn before(&self, site: &Site) -> Result<bool, StoreError> {
        Ok(site.name == "inbox.accept")
    }

    async fn after(&self, mute: bool) -> Result<(), StoreError> {
        if mute {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_delivers_to_a_store_that_hangs_is_told_to_come_again_and_loses_nothing() {
    let store = SqliteStore::memory(SqliteOptions::default()).unwrap();
    let (engine, doors, sent) = (engine_on(Intercepted::new(store.clone(), Mute)), doors(1), incident());
    let response = deliver(&engine, &doors, sent.request()).await;
    assert_eq!(response.status, 503, "{}", response.body);
    assert!(response.headers.iter().any(|(name, _)| *name == "retry-after"));
    let scene = Scene { engine: engine_on(store), doors };
    assert_eq!(scene.deliver(&sent).await.status, 202);
    assert_eq!(scene.messages().await.len(), 1);
}

// Webhook forgery and replay.

#[tokio::test]
async fn an_unknown_tenant_an_unknown_source_and_a_wrong_signature_read_the_same() {
    let scene = Scene::set();
    let forged = incident().signed("a secret that somebody made up");
    let elsewhere = |source, tenant| Sent { source, tenant, ..incident() };
    for sent in [
        forged,
        elsewhere("servicenow", "nobody"),
        elsewhere("servicenow", "../acme"),
        elsewhere("servicenow", ""),
        elsewhere("github", "umbrella"),
        elsewhere("jira", "acme"),
        elsewhere("", "acme"),
        incident().signed("whatever is signed with this is refused"),
        Sent { tenant: "nobody", ..incident() }.signed("whatever is signed with this is refused"),
    ] {
        assert_eq!(scene.refuses(&sent, 401).await, unproved());
    }
}

#[tokio::test]
async fn sig_missing() {
    Scene::set().refuses(&incident().without("X-Countersign-Signature"), 401).await;
}

#[tokio::test]
async fn sig_empty() {
    Scene::set().refuses(&incident().with_signature(|_| String::new()), 401).await;
}

#[tokio::test]
async fn sig_wrong_version_v1() {
    let scene = Scene::set();
    scene.refuses(&incident().with_signature(|right| right.replace("v0=", "v1=")), 401).await;
    scene.refuses(&incident().with_signature(|right| right.replace("v0=", "sha256=")), 401).await;
}

#[tokio::test]
async fn sig_short_63() {
    let scene = Scene::set();
    scene.refuses(&incident().with_signature(|right| right[..right.len() - 1].to_owned()), 401).await;
    scene.refuses(&incident().with_signature(|right| format!("{right}0")), 401).await;
}

#[tokio::test]
async fn sig_nonhex() {
    let scene = Scene::set();
    let last = |with: &'static str| move |right: &str| format!("{}{with}", &right[..right.len() - 1]);
    for with in ["g", " ", "é", "\0"] {
        scene.refuses(&incident().with_signature(last(with)), 401).await;
    }
    scene.refuses(&incident().with_signature(str::to_uppercase), 401).await;
}

#[tokio::test]
async fn sig_prefix_only() {
    let scene = Scene::set();
    scene.refuses(&incident().with_signature(|_| "v0=".to_owned()), 401).await;
    scene.refuses(&incident().with_signature(|right| right[..20].to_owned()), 401).await;
}

#[tokio::test]
async fn a_header_that_stands_there_twice_proves_nothing() {
    let mut sent = incident();
    sent.headers.push(("x-countersign-signature".to_owned(), sent.signature()));
    Scene::set().refuses(&sent, 401).await;
}

#[tokio::test]
async fn sig_right_for_reencoded_body() {
    let pretty = serde_json::to_vec_pretty(&incident_json()).unwrap();
    Scene::set().refuses(&Sent { body: pretty, ..incident() }, 401).await;
}

#[tokio::test]
async fn sig_valid_other_tenant() {
    let scene = Scene::set();
    scene.refuses(&Sent { tenant: "umbrella", ..incident() }, 401).await;
    scene.refuses(&incident().signed(UMBRELLA), 401).await;
    // Nor for another source of the same tenant.
    scene.refuses(&incident().signed(HOOK), 401).await;
}

#[tokio::test]
async fn sig_valid_previous_secret_in_grace() {
    Scene::set().accepts(&incident().signed(ACME_BEFORE)).await;
}

#[tokio::test]
async fn sig_valid_previous_secret_after_grace() {
    let scene = Scene { doors: doors(0), ..Scene::set() };
    scene.refuses(&incident().signed(ACME_BEFORE), 401).await;
}

#[tokio::test]
async fn sig_sha1_header_only() {
    let scene = Scene::set();
    let sha1 = "sha1=2fd4e1c67a2d28fced849ee1bb76e7391b93eb12";
    scene.refuses(&push().without("X-Hub-Signature-256").with("X-Hub-Signature", sha1), 401).await;
    scene.refuses(&push().with("X-Hub-Signature-256", sha1), 401).await;
}

#[tokio::test]
async fn ts_missing() {
    Scene::set().refuses(&incident().without("X-Countersign-Timestamp"), 401).await;
}

#[tokio::test]
async fn ts_301s_old() {
    let scene = Scene::set();
    scene.refuses(&incident().signed_at(ACME, -301), 401).await;
    scene.accepts(&incident().signed_at(ACME, -300)).await;
}

#[tokio::test]
async fn ts_301s_future() {
    let scene = Scene::set();
    scene.refuses(&incident().signed_at(ACME, 301), 401).await;
    scene.accepts(&incident().signed_at(ACME, 300)).await;
}

#[tokio::test]
async fn ts_i64_overflow() {
    let scene = Scene::set();
    for time in ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e10", ""] {
        let signature = sign(&ACME.into(), time, &incident().body);
        let sent = incident().with("X-Countersign-Timestamp", time).with_signature(|_| signature.clone());
        scene.refuses(&sent, 401).await;
    }
}

#[tokio::test]
async fn replay_same_bytes_within_window() {
    let scene = Scene::set();
    for source in Source::WEBHOOKS {
        scene.apply_for(source, source.as_str()).await;
    }
    for sent in [incident(), push(), hook(r#"{"n":1}"#)] {
        let entry = scene.accepts(&sent).await;
        for status in [202, 202, 200] {
            if status == 200 {
                scene.engine.begin(&entry.run).await.unwrap();
            }
            let response = scene.deliver(&sent).await;
            assert_eq!(response.status, status, "{}", response.body);
            assert!(response.body.contains(entry.run.run.as_str()), "{}", response.body);
        }
    }
}

#[tokio::test]
async fn replay_new_delivery_id_same_mac() {
    let scene = Scene::set();
    let entry = scene.accepts(&push()).await;
    scene.knows(&push().with("X-GitHub-Delivery", "other"), &entry).await;
    // Neither does the name of the event, which is not signed, make another request of it.
    let renamed = push().with("X-GitHub-Delivery", "other").with("X-GitHub-Event", "deployment");
    assert_eq!(scene.deliver(&renamed).await.status, 409);
    let other = InboxEntry::run_of(&"acme".parse().unwrap(), &"github:other".parse().unwrap());
    assert_eq!(scene.engine.store().entry(&other).await.unwrap(), None);
}

#[tokio::test]
async fn same_delivery_id_other_body() {
    let scene = Scene::set();
    let entry = scene.accepts(&push()).await;
    let other = github("push", "72d3162e-cc78-11e3-81ab-4c9367dc0958", &json!({ "ref": "refs/heads/evil" }));
    let mut incident = incident_json();
    scene.accepts(&servicenow(&incident)).await;
    incident["record"]["priority"] = json!("5");
    for sent in [other, servicenow(&incident)] {
        let response = scene.deliver(&sent).await;
        assert_eq!(response.status, 409, "{}", response.body);
        let problem: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(problem["code"], "IDEMPOTENCY_CONFLICT");
    }
    assert_eq!(scene.engine.store().entry(&entry.run).await.unwrap(), Some(entry));
}

#[tokio::test]
async fn github_ping() {
    let scene = Scene::set();
    let ping = github("ping", "other", &json!({ "zen": "Design for failure.", "hook_id": 1 }));
    scene.refuses(&ping, 200).await;
    let forged = ping.with("X-Hub-Signature-256", sign_body(&"somebody else's secret".into(), b"{}"));
    scene.refuses(&forged, 401).await;
}

#[tokio::test]
async fn content_type_mismatch_form_vs_json() {
    let scene = Scene::set();
    let form = format!("payload={}", incident_json());
    for kind in ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""] {
        scene.refuses(&incident().with("Content-Type", kind), 415).await;
        scene.refuses(&push().with("Content-Type", kind), 415).await;
    }
    scene.refuses(&incident().without("Content-Type"), 415).await;
    scene.refuses(&Sent::new("servicenow", "acme", form).signed(ACME), 400).await;
    scene.accepts(&incident().with("Content-Type", "Application/JSON; charset=utf-8")).await;
}

#[tokio::test]
async fn base64_flag_lies() {
    let scene = Scene::set();
    let plain = String::from_utf8(incident().body).unwrap();
    let encoded = BASE64_STANDARD.encode(&plain);
    // Flagged, and not base64 at all: there are no bytes that anybody could have signed.
    assert_eq!(raw_body(&plain, true), None);
    for cut_off in [&encoded[..encoded.len() - 1], &format!("{encoded}\n"), &format!("{encoded}=")] {
        assert_eq!(raw_body(cut_off, true), None);
    }
    // Base64, and not flagged: other bytes than the signed ones. The same with a text that only looks encoded.
    let unflagged = raw_body(&encoded, false).unwrap().into_owned();
    scene.refuses(&Sent { body: unflagged, ..incident() }, 401).await;
    let word = Sent::new("servicenow", "acme", "abcd").signed(ACME);
    let mistaken = raw_body("abcd", true).unwrap().into_owned();
    scene.refuses(&Sent { body: mistaken, ..word }, 401).await;
    scene.accepts(&Sent { body: raw_body(&encoded, true).unwrap().into_owned(), ..incident() }).await;
}

#[tokio::test]
async fn path_tenant_differs_from_body_tenant() {
    let scene = Scene::set();
    let named = |tenant: Value| {
        let mut body = incident_json();
        body["tenant"] = tenant;
        servicenow(&body)
    };
    for tenant in [json!("umbrella"), json!("ACME"), json!(""), json!(null), json!(["acme"])] {
        scene.refuses(&named(tenant), 400).await;
    }
    scene.refuses(&hook(r#"{"tenant":"umbrella"}"#), 400).await;
    scene.accepts(&named(json!("acme"))).await;
}

// Parsing and size.

#[tokio::test]
async fn body_empty() {
    let scene = Scene::set();
    for body in ["", " ", "\n"] {
        scene.refuses(&Sent::new("servicenow", "acme", body).signed(ACME), 400).await;
        scene.refuses(&hook(body), 400).await;
    }
}

#[tokio::test]
async fn body_26MB() {
    let scene = Scene::set();
    // Measured before it is proved: whoever cannot sign learns nothing but the bound.
    scene.refuses(&Sent::new("servicenow", "acme", vec![b' '; 26 * 1024 * 1024]), 413).await;
    scene.refuses(&hook(text_of(BODY_BYTES_MAX + 1)), 413).await;
    scene.accepts(&hook(text_of(BODY_BYTES_MAX))).await;
}

fn text_of(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

#[tokio::test]
async fn json_depth_10000() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    Scene::set().refuses(&hook(deep), 400).await;
}

#[tokio::test]
async fn json_duplicate_keys() {
    let scene = Scene::set();
    let twice = r#"{"table":"incident","table":"change_request","record":{"sys_id":"a"}}"#;
    scene.refuses(&Sent::new("servicenow", "acme", twice).signed(ACME), 400).await;
    let tenants = r#"{"tenant":"acme","tenant":"umbrella","id":"a"}"#;
    scene.refuses(&hook(tenants), 400).await;
}

#[tokio::test]
async fn utf8_invalid() {
    Scene::set().refuses(&hook(&b"{\"id\":\"\xff\xfe\"}"[..]), 400).await;
}

#[tokio::test]
async fn nul_in_string() {
    let scene = Scene::set();
    scene.refuses(&hook(r#"{"id":"a\u0000b"}"#), 400).await;
    scene.refuses(&hook(&b"{\"id\":\"a\0b\"}"[..]), 400).await;
}

#[tokio::test]
async fn json_lone_surrogate() {
    Scene::set().refuses(&hook(r#"{"id":"\ud800"}"#), 400).await;
}

#[tokio::test]
async fn key_delimiter_in_id() {
    let scene = Scene::set();
    let record = |table: &str, sys_id: &str| {
        servicenow(&json!({ "table": table, "record": { "sys_id": sys_id, "sys_mod_count": "3" } }))
    };
    for bad in [":", "#", "a:b", "incident:1", "a b", "a/b", "ä", "a\nb", ""] {
        scene.refuses(&record("incident", bad), 400).await;
        scene.refuses(&record(bad, "a"), 400).await;
        scene.refuses(&push().with("X-GitHub-Delivery", bad), 400).await;
        scene.refuses(&push().with("X-GitHub-Event", bad), 400).await;
    }
    for count in [json!("1:2"), json!("-1"), json!(""), json!(1.5), json!(null)] {
        let record = json!({ "sys_id": SYS_ID, "sys_mod_count": count });
        scene.refuses(&servicenow(&json!({ "table": "incident", "record": record })), 400).await;
    }
    // What a sender calls its own requests may hold anything: it is hashed.
    let delimited = scene.accepts(&hook(r#"{"id":"a:b#c"}"#)).await;
    assert!(!delimited.key.as_str().contains("a:b"), "{}", delimited.key);
}

#[tokio::test]
async fn id_2049_bytes() {
    let scene = Scene::set();
    let long = "a".repeat(2_049);
    scene.refuses(&hook(json!({ "id": long }).to_string()), 400).await;
    scene.refuses(&push().with("X-GitHub-Delivery", long.as_str()), 400).await;
    let record = json!({ "sys_id": long, "sys_mod_count": "3" });
    scene.refuses(&servicenow(&json!({ "table": "incident", "record": record })), 400).await;
    let tenant: &'static str = Box::leak(long.into_boxed_str());
    scene.refuses(&Sent { tenant, ..incident() }, 401).await;
}

#[tokio::test]
async fn a_body_without_what_its_source_promises_is_refused_without_repeating_it() {
    let scene = Scene::set();
    for body in
        [json!([]), json!("secret text"), json!({}), json!({ "table": "incident", "record": "secret text" })]
    {
        let response = scene.refuses(&servicenow(&body), 400).await;
        assert!(!response.body.contains("secret text"), "{}", response.body);
    }
    scene.refuses(&github("push", "other", &json!(["a list"])), 400).await;
    scene.refuses(&hook(r#"{"id":["a"]}"#), 400).await;
}
