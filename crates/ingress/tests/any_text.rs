//! A signed delivery is accepted with any characters in its texts, and no reader gets them unescaped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use countersign_ingress::webhook::{AuthScheme, WebhookAuth, deliver};
use domain::{Approval, RunKey, Source, Timestamp};
use engine::{AdvanceLimits, Engine};
use http::{Request, Response};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use signing::{Secrets, sign_body};
use store::{Inbox as _, SqliteStore};
use testkit::{CapturedLog, TestClock};
use tokio::runtime::Builder;
use tracing::Level;

const SECRET: &str = "the secret of acme's GitHub";

const WORKFLOW: &str = "workflow: ask\nversion: 1\ntrigger: { github: {} }\n\
                        steps:\n  - { id: ask, tool: approval.gate, with: { message: '${ trigger.body.text }' } }\n";

/// Half of the characters are controls: C0, DEL, C1 and the noncharacters.
fn any_char() -> impl Strategy<Value = char> {
    prop_oneof![
        prop::char::range('\0', '\u{1f}'),
        prop::char::range('\u{7f}', '\u{9f}'),
        Just('\u{fffe}'),
        Just('\u{ffff}'),
        prop::char::range(' ', '~'),
        any::<char>(),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    vec(any_char(), 1..40).prop_map(String::from_iter)
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any_text().prop_map(Value::from), any::<i32>().prop_map(Value::from)];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((any_text(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

async fn send(engine: &Engine<SqliteStore>, auth: &WebhookAuth, id: u32, body: &Value) -> Response<String> {
    let body = body.to_string();
    let request = Request::post("/webhook/github/acme")
        .header("content-type", "application/json")
        .header("x-github-event", "check_run")
        .header("x-github-delivery", format!("delivery-{id}"))
        .header("x-hub-signature-256", sign_body(&SECRET.into(), body.as_bytes()));
    deliver(engine, auth, &request.body(Bytes::from(body)).unwrap()).await
}

/// Starts and advances the run, and returns the approval that it waits for.
async fn approval(engine: &Engine<SqliteStore>, run: &RunKey) -> Approval {
    engine.admission().process_entry(run).await.unwrap();
    Box::pin(engine.execution().advance(run, &(), AdvanceLimits::default())).await.unwrap();
    let open = engine.tenant_handle(&run.tenant, &testkit::ada()).open_approvals(None, 100).await.unwrap();
    open.approvals.into_iter().find(|approval| approval.run == *run).unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(fields) => fields.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

fn is_raw(c: char) -> bool {
    c != '\n' && (c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'))
}

#[test]
fn any_signed_text_is_accepted_and_escaped() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (log, _guard) = CapturedLog::capture(Level::DEBUG);
    let engine = testkit::engine().clock(TestClock::at(Timestamp(1_800_000_000_000))).build();
    let scheme = AuthScheme::GitHub(Secrets::new(SECRET.into()).unwrap());
    let auth = WebhookAuth::default().with("acme".parse().unwrap(), Source::GitHub, scheme).unwrap();
    let plan = workflow::parse(WORKFLOW, &[].into()).unwrap();
    runtime.block_on(engine.tenant_handle(&testkit::acme(), &testkit::ada()).apply(&plan)).unwrap();

    let next = std::cell::Cell::new(0);
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config)
        .run(&(any_text(), any_json()), |(text, more)| {
            next.set(next.get() + 1);
            let body = json!({ "check_run": {}, "text": text, "more": more });
            let response = runtime.block_on(send(&engine, &auth, next.get(), &body));
            prop_assert_eq!(response.status().as_u16(), 202, "{}", response.body());
            prop_assert!(!response.body().contains(is_raw));
            let reply: Value = serde_json::from_str(response.body()).unwrap();
            let run =
                RunKey { tenant: testkit::acme(), run: reply["run"].as_str().unwrap().parse().unwrap() };
            let entry = runtime.block_on(engine.store().entry(&run)).unwrap().unwrap();
            prop_assert_eq!(&json!(entry.body)["inline"]["body"], &body);
            let approval = runtime.block_on(approval(&engine, &run));
            for text in texts(&slack::card::render(&approval, None)) {
                prop_assert!(!text.contains(is_raw), "{text:?}");
            }
            Ok(())
        })
        .unwrap();
    assert!(!log.text().contains(is_raw), "{:?}", log.text());
}
