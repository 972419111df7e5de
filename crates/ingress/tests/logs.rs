//! The log contains the code of a refusal and nothing of the request.

use bytes::Bytes;
use countersign_ingress::webhook::{AuthScheme, WebhookAuth, deliver};
use domain::record::ORPHANED_AFTER;
use domain::{Cause, Initiator, Millis, RunStatus, Source, Timestamp};
use engine::{AdvanceLimits, Engine};
use http::Request;
use serde_json::{Value, json};
use signing::{Secrets, sign};
use store::{Clock as _, Ledger as _, SqliteStore};
use testkit::{CapturedLog, TestClock};
use tracing::Level;

const SECRET: &str = "the secret of acme's own scripts";

/// The lines with this message.
fn lines(log: &CapturedLog, message: &str) -> Vec<Value> {
    log.lines().into_iter().filter(|line| line["fields"]["message"] == message).collect()
}

fn engine(clock: &TestClock) -> Engine<SqliteStore> {
    testkit::engine().clock(clock.clone()).me("ingress").build()
}

#[tokio::test]
async fn only_an_abandoned_run_is_logged_as_orphaned() {
    let (log, _guard) = CapturedLog::capture(Level::DEBUG);
    let clock = TestClock::at(Timestamp(0));
    let engine = engine(&clock);
    let run = testkit::start(&engine, testkit::ASK, "k").await;

    clock.advance(ORPHANED_AFTER);
    assert_eq!(
        engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
        1,
        "no worker started it"
    );
    Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default())).await.unwrap();
    assert_eq!(engine.store().load(&run).await.unwrap().unwrap().status, RunStatus::WaitingApproval);
    clock.advance(Millis::hours(24 * 30));
    assert_eq!(
        engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
        1,
        "the approval is overdue"
    );

    let orphaned = lines(&log, "orphaned run woken");
    assert_eq!(orphaned.len(), 1, "{}", log.text());
    let fields = json!({
        "message": "orphaned run woken",
        "event": "orphan_detected",
        "code": "RUN_ORPHANED",
        "run": run.to_string(),
    });
    assert_eq!((&orphaned[0]["level"], &orphaned[0]["fields"]), (&json!("INFO"), &fields));
    let due = lines(&log, "due run woken");
    assert_eq!(due.len(), 1, "{}", log.text());
    assert_eq!((&due[0]["level"], &due[0]["fields"]["code"]), (&json!("DEBUG"), &Value::Null));
}

#[tokio::test]
async fn refused_delivery_logs_its_code_and_no_content() {
    let (log, _guard) = CapturedLog::capture(Level::DEBUG);
    let clock = TestClock::at(Timestamp(0));
    clock.advance(Millis::hours(1));
    let engine = engine(&clock);
    let scheme = AuthScheme::Hmac(Secrets::new(SECRET.into()).unwrap());
    let auth = WebhookAuth::default().with("acme".parse().unwrap(), Source::Webhook, scheme).unwrap();
    let timestamp = (clock.now().0 / 1_000).to_string();
    let mut statuses = Vec::new();
    for password in ["hunter2", "swordfish"] {
        let body = json!({ "id": "order-4711", "password": password }).to_string().into_bytes();
        let signature = sign(&SECRET.into(), &timestamp, &body);
        let request = Request::post("/webhook/webhook/acme")
            .header("content-type", "application/json")
            .header("x-countersign-timestamp", &timestamp)
            .header("x-countersign-signature", &signature)
            .body(Bytes::from(body))
            .unwrap();
        statuses.push(deliver(&engine, &auth, &request).await.status().as_u16());
    }
    assert_eq!(statuses, [202, 409]);

    let refused: Vec<Value> =
        lines(&log, "refused").into_iter().map(|mut line| line["fields"].take()).collect();
    assert_eq!(
        refused,
        [json!({ "message": "refused", "event": "request_refused", "code": "IDEMPOTENCY_CONFLICT" })]
    );
    for secret in [SECRET, "order-4711", "hunter2", "swordfish"] {
        assert!(!log.text().contains(secret), "{}", log.text());
    }
}
