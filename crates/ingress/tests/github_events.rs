//! Which GitHub deliveries are one event: those with one delivery id, and those about one pull request with the same
//! content within five seconds.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use countersign_ingress::webhook::{AuthScheme, WebhookAuth, deliver};
use domain::inbox::DUPLICATE_WITHIN;
use domain::{Millis, Source, Timestamp};
use http::Request;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use signing::{Secrets, sign_body};
use store::Clock as _;
use testkit::{TestClock, TestEnv};
use tokio::runtime::Builder;

const SECRET: &str = "the secret of acme's GitHub";

struct GitHubEnv {
    env: TestEnv,
    auth: WebhookAuth,
}

impl GitHubEnv {
    fn new() -> Self {
        let env = testkit::engine().clock(TestClock::at(Timestamp(1_800_000_000_000))).env();
        let scheme = AuthScheme::GitHub(Secrets::new(SECRET.into()).unwrap());
        let auth = WebhookAuth::default().with("acme".parse().unwrap(), Source::GitHub, scheme).unwrap();
        Self { env, auth }
    }

    /// Delivers an event; whether it is new.
    async fn is_new(&self, delivery: &str, event: &str, body: &Value) -> bool {
        let body = body.to_string();
        let request = Request::post("/webhook/github/acme")
            .header("content-type", "application/json")
            .header("x-github-event", event)
            .header("x-github-delivery", delivery)
            .header("x-hub-signature-256", sign_body(&SECRET.into(), body.as_bytes()));
        let response = deliver(&self.env.engine, &self.auth, &request.body(Bytes::from(body)).unwrap()).await;
        assert_eq!(response.status(), 202, "{}", response.body());
        response.body().contains("accepted")
    }
}

fn pull_request(action: &str, title: &str, base: &str, merged: bool) -> Value {
    json!({
        "action": action,
        "pull_request": {
            "number": 7, "title": title, "merged": merged,
            "head": { "sha": "6dcb09b5" }, "base": { "ref": base },
        },
        "repository": { "id": 42, "full_name": "acme/db" },
    })
}

/// An event and its body, without delivery metadata.
type Event = (&'static str, Value);

/// Events that can happen again with the same content, and some that cannot.
fn any_event() -> impl Strategy<Value = Event> {
    let action = prop_oneof![Just("edited"), Just("closed"), Just("reopened")];
    let title = prop_oneof![Just("Fix"), Just("Repair")];
    let base = prop_oneof![Just("main"), Just("next")];
    let pull = (action, title, base, any::<bool>()).prop_map(|(action, title, base, merged)| {
        ("pull_request", pull_request(action, title, base, merged))
    });
    let member = prop_oneof![Just("added"), Just("removed")].prop_map(|action| {
        ("membership", json!({ "action": action, "member": { "id": 1 }, "team": { "id": 2 } }))
    });
    let block = prop_oneof![Just("blocked"), Just("unblocked")]
        .prop_map(|action| ("org_block", json!({ "action": action, "blocked_user": { "id": 3 } })));
    prop_oneof![2 => pull, 1 => member, 1 => block]
}

#[derive(Debug, Clone)]
enum Sent {
    /// An event with a new delivery id, by the hook with this installation.
    Event(Event, u8),
    /// An earlier delivery again, with the same id and bytes.
    Again(prop::sample::Index),
}

fn any_sent() -> impl Strategy<Value = (Sent, u64)> {
    let sent = prop_oneof![
        3 => (any_event(), 0..2_u8).prop_map(|(event, hook)| Sent::Event(event, hook)),
        1 => any::<prop::sample::Index>().prop_map(Sent::Again),
    ];
    (sent, prop_oneof![0..2_000_u64, 3_000..9_000_u64])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_event_is_accepted_once(sequence in vec(any_sent(), 1..20)) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let env = GitHubEnv::new();
        let mut deliveries: Vec<(String, &'static str, Value)> = Vec::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut pulls: BTreeMap<String, Timestamp> = BTreeMap::new();
        for (sent, pause) in sequence {
            env.env.clock.advance(Millis(pause));
            let now = env.env.clock.now();
            let (delivery, event, body) = match sent {
                Sent::Event((event, mut body), hook) => {
                    body["installation"] = json!({ "id": hook });
                    let delivery = (format!("delivery-{}", deliveries.len()), event, body);
                    deliveries.push(delivery.clone());
                    delivery
                }
                Sent::Again(_) if deliveries.is_empty() => continue,
                Sent::Again(index) => index.get(&deliveries).clone(),
            };
            // The delivery of a duplicate is not remembered: the same bytes again may be a new event later.
            let is_repeated = known.contains(&delivery);
            let content = (event == "pull_request").then(|| {
                let mut body = body.clone();
                body["installation"].take();
                body.to_string()
            });
            let is_recent = content.as_ref().and_then(|content| pulls.get(content))
                .is_some_and(|at| now - *at < DUPLICATE_WITHIN);
            let expected = !is_repeated && !is_recent;
            let new = runtime.block_on(env.is_new(&delivery, event, &body));
            prop_assert_eq!(new, expected, "{} {} {}", delivery, event, body);
            if new {
                known.insert(delivery);
                pulls.extend(content.map(|content| (content, now)));
            }
        }
    }
}

#[tokio::test]
async fn merge_after_a_reopening_is_its_own_event() {
    let env = GitHubEnv::new();
    let events = [
        pull_request("edited", "Fix", "main", false),
        pull_request("edited", "Repair", "main", false),
        pull_request("edited", "Repair", "next", false),
        pull_request("closed", "Repair", "next", false),
        pull_request("reopened", "Repair", "next", false),
        pull_request("closed", "Repair", "next", true),
    ];
    for (n, body) in events.iter().enumerate() {
        assert!(env.is_new(&format!("d-{n}"), "pull_request", body).await, "{body}");
    }
}

#[tokio::test]
async fn event_without_a_time_can_happen_again() {
    let env = GitHubEnv::new();
    let added = json!({ "action": "added", "member": { "id": 1 }, "team": { "id": 2 } });
    assert!(env.is_new("d-1", "membership", &added).await);
    assert!(!env.is_new("d-1", "membership", &added).await);
    assert!(env.is_new("d-2", "membership", &added).await);
    env.env.clock.advance(Millis::hours(24 * 30));
    assert!(env.is_new("d-3", "membership", &added).await);
    assert!(!env.is_new("d-2", "membership", &added).await, "the id of a delivery is remembered");
}
