//! The log and the metrics contain the reason of a refusal and nothing of the request.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use countersign_ingress::webhook::{AuthScheme, BODY_BYTES_MAX, WebhookAuth, deliver};
use domain::record::ORPHANED_AFTER;
use domain::{Cause, Initiator, Millis, RunStatus, Source, Timestamp};
use http::Request;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use signing::{Secrets, sign, sign_body};
use store::Clock as _;
use testkit::{CapturedLog, TestClock, TestEnv};
use tracing::Level;

const SECRET: &str = "the secret of acme's own scripts";

/// The lines with this message.
fn lines(log: &CapturedLog, message: &str) -> Vec<Value> {
    log.lines().into_iter().filter(|line| line["fields"]["message"] == message).collect()
}

/// A delivery to acme's own webhook.
fn signed(clock: &TestClock, body: &[u8]) -> Request<Bytes> {
    let timestamp = (clock.now().0 / 1_000).to_string();
    Request::post("/webhook/webhook/acme")
        .header("content-type", "application/json")
        .header("x-countersign-timestamp", &timestamp)
        .header("x-countersign-signature", sign(&SECRET.into(), &timestamp, body))
        .body(Bytes::copy_from_slice(body))
        .unwrap()
}

fn auth() -> WebhookAuth {
    let scheme = AuthScheme::Hmac(Secrets::new(SECRET.into()).unwrap());
    WebhookAuth::default().with("acme".parse().unwrap(), Source::Webhook, scheme).unwrap()
}

/// Every delivery that is refused although its sender is known, or could be, has a log line and is counted.
#[tokio::test]
async fn every_refused_delivery_is_logged_and_counted() {
    let (log, _guard) = CapturedLog::capture(Level::INFO);
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let (env, auth) = (env_at(Timestamp(0)), auth());
    let deep = "[".repeat(100) + &"]".repeat(100);
    // The engine wraps the body, so this one is too deep only for it.
    let too_deep_wrapped = "[".repeat(65) + &"]".repeat(65);
    let large = vec![b' '; BODY_BYTES_MAX + 1];
    let cases: [(&[u8], u16, &str); 7] = [
        (b"{\"secret\":", 400, "invalid_json"),
        (br#"{"secret":1,"secret":2}"#, 400, "invalid_json"),
        (deep.as_bytes(), 400, "invalid_json"),
        (too_deep_wrapped.as_bytes(), 400, "invalid_json"),
        (br#"{"id":["secret"]}"#, 400, "invalid_event"),
        (br#"{"tenant":"secret"}"#, 400, "invalid_event"),
        (&large, 413, "too_large"),
    ];
    for (body, status, _) in cases {
        assert_eq!(deliver(&env.engine, &auth, &signed(&env.clock, body)).await.status(), status);
    }
    let mut plain = signed(&env.clock, b"{}");
    plain.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(deliver(&env.engine, &auth, &plain).await.status(), 415);
    let mut forged = signed(&env.clock, b"{}");
    forged.headers_mut().insert("x-countersign-signature", "v0=secret".parse().unwrap());
    assert_eq!(deliver(&env.engine, &auth, &forged).await.status(), 401);

    let reasons: Vec<String> = lines(&log, "webhook refused")
        .into_iter()
        .map(|line| line["fields"]["reason"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<&str> = cases.iter().map(|case| case.2).chain(["content_type"]).collect();
    assert_eq!(reasons, expected);
    assert_eq!(lines(&log, "webhook not authenticated").len(), 1);
    let counted = recorder.handle().render();
    for (reason, count) in [
        ("invalid_json", 4),
        ("invalid_event", 2),
        ("too_large", 1),
        ("content_type", 1),
        ("unauthenticated", 1),
    ] {
        let line = format!(
            r#"countersign_deliveries_refused_total{{tenant="acme",source="webhook",reason="{reason}"}} {count}"#
        );
        assert!(counted.lines().any(|counted| counted == line), "{line}: {counted}");
    }
    assert!(!log.text().contains("secret"), "{}", log.text());
}

/// Such a delivery is probably a captured one, so it has a reason of its own.
#[tokio::test]
async fn body_of_another_github_event_is_logged_and_counted() {
    let (log, _guard) = CapturedLog::capture(Level::INFO);
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let env = env_at(Timestamp(0));
    let scheme = AuthScheme::GitHub(Secrets::new(SECRET.into()).unwrap());
    let auth = WebhookAuth::default().with("acme".parse().unwrap(), Source::GitHub, scheme).unwrap();
    let body = br#"{"ref":"refs/heads/secret","commits":[]}"#;
    let push_as_deployment = Request::post("/webhook/github/acme")
        .header("content-type", "application/json")
        .header("x-github-event", "deployment")
        .header("x-github-delivery", "d-1")
        .header("x-hub-signature-256", sign_body(&SECRET.into(), body))
        .body(Bytes::from_static(body))
        .unwrap();

    assert_eq!(deliver(&env.engine, &auth, &push_as_deployment).await.status(), 400);

    let refused = lines(&log, "webhook refused");
    assert_eq!(refused.len(), 1, "{}", log.text());
    assert_eq!(refused[0]["fields"]["event"], "webhook_refused");
    assert_eq!(refused[0]["fields"]["reason"], "event_mismatch");
    let line =
        r#"countersign_deliveries_refused_total{tenant="acme",source="github",reason="event_mismatch"} 1"#;
    let counted = recorder.handle().render();
    assert!(counted.lines().any(|counted| counted == line), "{counted}");
    assert!(!log.text().contains("refs/heads"), "{}", log.text());
}

fn env_at(now: Timestamp) -> TestEnv {
    testkit::engine().clock(TestClock::at(now)).me("ingress").env()
}

#[tokio::test]
async fn only_an_abandoned_run_is_logged_as_orphaned() {
    let (log, _guard) = CapturedLog::capture(Level::DEBUG);
    let env = env_at(Timestamp(0));
    let run = env.start(testkit::ASK, "k").await;

    env.clock.advance(ORPHANED_AFTER);
    assert_eq!(
        env.engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
        1,
        "no worker started it"
    );
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.clock.advance(Millis::hours(24 * 30));
    assert_eq!(
        env.engine.operations().sweep(&Initiator::new(Cause::System, "sweep")).await.unwrap().woken,
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
    let env = env_at(Timestamp(0) + Millis::hours(1));
    let auth = auth();
    let mut statuses = Vec::new();
    for password in ["hunter2", "swordfish"] {
        let body = json!({ "id": "order-4711", "password": password }).to_string().into_bytes();
        statuses.push(deliver(&env.engine, &auth, &signed(&env.clock, &body)).await.status().as_u16());
    }
    assert_eq!(statuses, [202, 409]);

    let refused: Vec<Value> =
        lines(&log, "webhook refused").into_iter().map(|mut line| line["fields"].take()).collect();
    let fields = json!({
        "message": "webhook refused",
        "event": "webhook_refused",
        "tenant": "acme",
        "source": "webhook",
        "code": "IDEMPOTENCY_CONFLICT",
        "reason": "key_conflict",
    });
    assert_eq!(refused, [fields]);
    for secret in [SECRET, "order-4711", "hunter2", "swordfish"] {
        assert!(!log.text().contains(secret), "{}", log.text());
    }
}
