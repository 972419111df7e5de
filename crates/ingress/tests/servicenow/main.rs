//! Runs the Business Rule of `docs/servicenow.md` in Node, with fakes of ServiceNow's classes: the webhook handler accepts
//! its request.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use bytes::Bytes;
use countersign_ingress::webhook::{AuthScheme, WebhookAuth, deliver};
use domain::{RunKey, Source, Timestamp};
use engine::Engine;
use http::Request;
use serde_json::{Value, json};
use signing::Secrets;
use store::{Inbox as _, SqliteStore};
use testkit::TestClock;

const PAGE: &str = include_str!("../../../../docs/servicenow.md");
const CLASSES: &str = include_str!("instance.js");

const NOW: Timestamp = Timestamp(1_800_000_000_123);

const SECRET: &str = "acme's secret in countersign.secret";
const HOST: &str = "https://countersign.example";

const PLAIN: &str = "The disk of db-7 is full";
/// Characters of one to four bytes, and characters that JSON escapes.
const NON_ASCII: &str = "Die \"größte\" Platte\nist voll: 東京 🚨";

#[tokio::test]
async fn rule_request_is_accepted_in_any_scope_and_language() {
    let (rule, _) = scripts();
    for mac in ["CertificateEncryption", "GlideCertificateEncryption"] {
        for description in [PLAIN, NON_ASCII] {
            let did = Instance { mac, ..DEFAULT }.save(rule, description);
            assert_eq!(did["sent"][0]["method"], "POST");
            assert_eq!(
                deliver_request(&did["sent"][0]).await,
                (202, stored(description)),
                "{mac}: {description}"
            );
        }
    }
}

#[tokio::test]
async fn escaped_body_is_accepted_with_any_encoding() {
    let (rule, _) = scripts();
    let latin = Instance { encoding: "latin1", ..DEFAULT };
    let refused = latin.save(rule, NON_ASCII);
    assert_eq!(deliver_request(&refused["sent"][0]).await, (401, Value::Null));
    for instance in [latin, DEFAULT] {
        let did = instance.save(&escaping_rule(), NON_ASCII);
        assert_eq!(deliver_request(&did["sent"][0]).await, (202, stored(NON_ASCII)), "{}", instance.encoding);
    }
}

#[test]
fn rule_logs_only_rejected_requests() {
    let (rule, _) = scripts();
    let logged = |status| Instance { status, ..DEFAULT }.save(rule, PLAIN)["logged"].clone();
    assert_eq!((logged(200), logged(202)), (json!([]), json!([])));
    assert_eq!(logged(401), json!(["Countersign did not accept INC0010023: status 401"]));
}

/// The scripts on the page: the rule, and the optional addition.
fn scripts() -> (&'static str, &'static str) {
    let blocks = PAGE.split("```javascript\n").skip(1).filter_map(|rest| rest.split("```").next());
    let [rule, addition] = <[&str; 2]>::try_from(blocks.collect::<Vec<_>>()).unwrap();
    (rule, addition)
}

/// The rule with the addition, which escapes the body before it is signed.
fn escaping_rule() -> String {
    let (rule, addition) = scripts();
    let (body, rest) = rule.split_once("    var secret = ").unwrap();
    format!("{body}{addition}    var secret = {rest}")
}

#[derive(Clone, Copy)]
struct Instance {
    /// The name of the class that signs.
    mac: &'static str,
    /// The encoding of the signed text.
    encoding: &'static str,
    /// The status of the response to its request.
    status: u16,
}

const DEFAULT: Instance = Instance { mac: "GlideCertificateEncryption", encoding: "utf8", status: 202 };

impl Instance {
    /// Runs the rule for a saved incident: its request in `sent`, its log lines in `logged`.
    fn save(self, rule: &str, description: &str) -> Value {
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

/// The stored body of the incident.
fn stored(description: &str) -> Value {
    json!({ "inline": { "table": "incident", "record": incident(description) } })
}

/// Runs a program in Node and parses its output.
fn node(program: &str) -> Value {
    let output = Command::new("node").args(["--eval", program]).output();
    let output = output.map_err(|error| format!("start node (`cargo xtask test` installs it): {error}"));
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The response status of the webhook handler, and the stored body.
async fn deliver_request(sent: &Value) -> (u16, Value) {
    let engine = engine();
    let scheme = AuthScheme::Hmac(Secrets::new(SECRET.into()).unwrap());
    let auth = WebhookAuth::default().with("acme".parse().unwrap(), Source::ServiceNow, scheme).unwrap();
    let request = Request::post(text(&sent["url"]).strip_prefix(HOST).unwrap());
    let headers = sent["headers"].as_object().unwrap().iter();
    let request = headers.fold(request, |request, (name, value)| request.header(name, text(value)));
    let request = request.body(Bytes::from(text(&sent["body"]).to_owned())).unwrap();
    let response = deliver(&engine, &auth, &request).await;
    let reply: Value = serde_json::from_str(response.body()).unwrap();
    let Some(run) = reply["run"].as_str() else { return (response.status().as_u16(), Value::Null) };
    let run = RunKey { tenant: "acme".parse().unwrap(), run: run.parse().unwrap() };
    let entry = engine.store().entry(&run).await.unwrap().unwrap();
    (response.status().as_u16(), json!(entry.body))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn engine() -> Engine<SqliteStore> {
    testkit::engine().clock(TestClock::at(NOW)).me("ingress").build()
}
