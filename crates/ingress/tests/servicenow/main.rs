//! The Business Rule in `docs/servicenow.md`, run in Node as it stands there, with ServiceNow's classes stood in for:
//! what it sends is what the door accepts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::sync::Arc;

use connectors::Toolbox;
use countersign_ingress::webhook::{Proof, Request, WebhookAuth, deliver};
use domain::{RunKey, Source, Timestamp};
use engine::{Engine, Parts, Timing};
use serde_json::{Value, json};
use signing::Secrets;
use store::{Clock, Inbox as _, SqliteOptions, SqliteStore};

const PAGE: &str = include_str!("../../../../docs/servicenow.md");
const CLASSES: &str = include_str!("instance.js");

const NOW: Timestamp = Timestamp(1_800_000_000_123);

const SECRET: &str = "what acme keeps in countersign.secret";
const HOST: &str = "https://countersign.example";

const PLAIN: &str = "The disk of db-7 is full";
/// One, two, three and four bytes for a letter, and what JSON itself escapes.
const FAR_FROM_ASCII: &str = "Die \"größte\" Platte\nist voll: 東京 🚨";

#[tokio::test]
async fn what_the_rule_sends_is_accepted_in_either_scope_and_in_any_language() {
    let (rule, _) = scripts();
    for mac in ["CertificateEncryption", "GlideCertificateEncryption"] {
        for description in [PLAIN, FAR_FROM_ASCII] {
            let did = Instance { mac, ..USUAL }.saves(rule, description);
            assert_eq!(did["sent"][0]["method"], "POST");
            assert_eq!(answer(&did["sent"][0]).await, (202, kept(description)), "{mac}: {description}");
        }
    }
}

#[tokio::test]
async fn where_another_encoding_is_signed_the_body_is_accepted_once_it_is_escaped() {
    let (rule, _) = scripts();
    let latin = Instance { encoding: "latin1", ..USUAL };
    let refused = latin.saves(rule, FAR_FROM_ASCII);
    assert_eq!(answer(&refused["sent"][0]).await, (401, Value::Null));
    for instance in [latin, USUAL] {
        let did = instance.saves(&escaping_rule(), FAR_FROM_ASCII);
        assert_eq!(answer(&did["sent"][0]).await, (202, kept(FAR_FROM_ASCII)), "{}", instance.encoding);
    }
}

#[test]
fn the_rule_logs_what_was_not_accepted_and_nothing_else() {
    let (rule, _) = scripts();
    let logged = |status| Instance { status, ..USUAL }.saves(rule, PLAIN)["logged"].clone();
    assert_eq!((logged(200), logged(202)), (json!([]), json!([])));
    assert_eq!(logged(401), json!(["Countersign did not accept INC0010023: status 401"]));
}

/// The page's scripts: the rule, and what may be added to it.
fn scripts() -> (&'static str, &'static str) {
    let blocks = PAGE.split("```javascript\n").skip(1).filter_map(|rest| rest.split("```").next());
    let [rule, addition] = <[&str; 2]>::try_from(blocks.collect::<Vec<_>>()).unwrap();
    (rule, addition)
}

/// The rule with its body escaped before anything is done with it.
fn escaping_rule() -> String {
    let (rule, addition) = scripts();
    let (body, rest) = rule.split_once("    var secret = ").unwrap();
    format!("{body}{addition}    var secret = {rest}")
}

/// An instance of ServiceNow.
#[derive(Clone, Copy)]
struct Instance {
    /// What the class that signs is called.
    mac: &'static str,
    /// How text becomes the bytes that are signed.
    encoding: &'static str,
    /// What is answered to whatever it sends.
    status: u16,
}

const USUAL: Instance = Instance { mac: "GlideCertificateEncryption", encoding: "utf8", status: 202 };

impl Instance {
    /// What the rule does when an incident is saved: the one request it has `sent`, and what it has `logged`.
    fn saves(self, rule: &str, description: &str) -> Value {
        let given = json!({
            "mac": self.mac,
            "encoding": self.encoding,
            "status": self.status,
            "now_ms": NOW.0,
            "properties": {
                "countersign.secret": SECRET,
                "countersign.url": format!("{HOST}/webhook/servicenow/acme"),
            },
            "table": "incident",
            "record": incident(description),
        });
        let did = node(&format!("const given = {given};\n{CLASSES}\n{rule}"));
        assert_eq!(did["sent"].as_array().unwrap().len(), 1, "{did}");
        did
    }
}

fn incident(description: &str) -> Value {
    json!({
        "sys_id": "9d385017c611228701d22104cc95c371",
        "sys_mod_count": "3",
        "number": "INC0010023",
        "priority": "1",
        "short_description": description,
    })
}

/// What a workflow sees of the incident.
fn kept(description: &str) -> Value {
    json!({ "inline": { "table": "incident", "record": incident(description) } })
}

/// What a program for Node prints.
fn node(program: &str) -> Value {
    let ran = Command::new("node").args(["--eval", program]).output();
    let ran = ran.map_err(|error| format!("`cargo xtask test` gets node, which does not start: {error}"));
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The status with which the door answers to what was sent, and what is kept of it.
async fn answer(sent: &Value) -> (u16, Value) {
    let engine = engine();
    let proof = Proof::Signed(Secrets::new(SECRET.into()).unwrap());
    let doors = WebhookAuth::default().and("acme".parse().unwrap(), Source::ServiceNow, proof).unwrap();
    let path = text(&sent["url"]).strip_prefix(HOST).and_then(|path| path.strip_prefix("/webhook/"));
    let (source, tenant) = path.and_then(|path| path.split_once('/')).unwrap();
    let headers = sent["headers"].as_object().unwrap().iter();
    let headers = headers.map(|(name, value)| (name.as_str(), text(value))).collect();
    let request = Request { source, tenant, headers, body: text(&sent["body"]).as_bytes() };
    let response = deliver(&engine, &doors, request).await;
    let told: Value = serde_json::from_str(&response.body).unwrap();
    let Some(run) = told["run"].as_str() else { return (response.status, Value::Null) };
    let run = RunKey { tenant: tenant.parse().unwrap(), run: run.parse().unwrap() };
    let entry = engine.store().entry(&run).await.unwrap().unwrap();
    (response.status, json!(entry.body))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn engine() -> Engine<SqliteStore> {
    Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: Toolbox::default(),
        clock: Arc::new(Noon),
        me: "door".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        NOW
    }
}
