//! The functions as API Gateway calls them: an event in, a reply out.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use config::{ProcessContext, SystemsConfig};
use countersign_functions::lambda::{self, HttpEvent, HttpReply, on_slack, on_webhook};
use domain::{Millis, QueueName, Timestamp};
use engine::Engine;
use ingress::slack::SlackInstallations;
use ingress::webhook::WebhookAuth;
use serde_json::{Value, json};
use store::{Queue as _, SqliteStore};

const SOURCES: &str = "- { tenant: acme, source: webhook, scheme: hmac, secret_env: HOOK }";
const SYSTEMS: &str = "connections: [ { tenant: acme, name: slack, kind: slack, base_url: 'http://127.0.0.1:9',\n  \
                       credential: { type: bearer, token: 'env://TOKEN' },\n  \
                       options: { channel: C0APPROVALS, signing_secret: 'env://SLACK' } } ]";

fn secret(name: &str) -> String {
    format!("the secret that is called {name}")
}

fn engine() -> Engine<SqliteStore> {
    lambda::engine(testkit::memory(), "ingress").unwrap()
}

fn webhook_auth() -> WebhookAuth {
    lambda::webhook_auth(SOURCES, &|name| Some(secret(name))).unwrap()
}

fn slack_installations() -> SlackInstallations {
    let process = ProcessContext::without_aws(|| Timestamp(0));
    let systems = SystemsConfig::parse(SYSTEMS).unwrap();
    lambda::slack_installations(&systems, |name| Some(secret(name)), process).unwrap()
}

/// A gateway event with `body`, signed now with `secret`, in headers with `prefix`.
fn event(path: &str, prefix: &str, secret: &str, body: &str) -> Value {
    let secs = (engine().now().0 / 1_000).to_string();
    let signature = signing::sign(&self::secret(secret).into(), &secs, body.as_bytes());
    json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {
            "content-type": "application/json",
            format!("x-{prefix}-timestamp"): secs,
            format!("x-{prefix}-signature"): signature,
        },
        "requestContext": { "http": { "method": "POST" } },
        "body": body,
        "isBase64Encoded": false,
    })
}

fn signed_webhook(path: &str, body: &str) -> Value {
    event(path, "countersign", "HOOK", body)
}

fn parse(event: Value) -> HttpEvent {
    serde_json::from_value(event).unwrap()
}

async fn reply(engine: &Engine<SqliteStore>, event: Value) -> Value {
    serde_json::to_value(HttpReply::from(on_webhook(engine, &webhook_auth(), &parse(event)).await)).unwrap()
}

async fn messages(engine: &Engine<SqliteStore>) -> usize {
    engine.store().receive(QueueName::Ingest, 10, Millis::mins(1), Duration::ZERO).await.unwrap().len()
}

#[tokio::test]
async fn webhook_reply_has_the_gateway_format() {
    let engine = engine();
    for path in ["/webhook/webhook/acme", "/prod/webhook/webhook/acme"] {
        let response = reply(&engine, signed_webhook(path, &json!({ "id": path }).to_string())).await;
        assert_eq!(
            (&response["statusCode"], &response["isBase64Encoded"]),
            (&json!(202), &json!(false)),
            "{response}"
        );
        assert_eq!(response["headers"]["content-type"], "application/json");
        assert!(response["body"].as_str().unwrap().contains("accepted"), "{response}");
        assert_eq!(messages(&engine).await, 1);
    }
}

/// A delivery that is signed as `signed` and arrives as `body`.
fn delivery(signed: &str, body: &str, is_base64: bool) -> Value {
    let mut event = signed_webhook("/webhook/webhook/acme", signed);
    event["body"] = body.into();
    event["isBase64Encoded"] = is_base64.into();
    event
}

#[tokio::test]
async fn base64_flag_lies() {
    let engine = engine();
    let plain = r#"{"id":1}"#;
    let encoded = BASE64_STANDARD.encode(plain);
    for (signed, body, is_base64) in [
        // Flagged, but not base64: there are no bytes to verify.
        (plain, plain, true),
        (plain, &encoded[..encoded.len() - 1], true),
        (plain, &format!("{encoded}\n"), true),
        (plain, &format!("{encoded}="), true),
        // Base64, but not flagged: other bytes than the signed ones. The same for a text that only looks encoded.
        (plain, &encoded, false),
        ("abcd", "abcd", true),
    ] {
        assert_eq!(reply(&engine, delivery(signed, body, is_base64)).await["statusCode"], 401, "{body}");
    }
    assert_eq!(messages(&engine).await, 0);
    assert_eq!(reply(&engine, delivery(plain, &encoded, true)).await["statusCode"], 202);
}

#[tokio::test]
async fn oversized_and_unrouted_requests_are_rejected() {
    let engine = engine();
    let mut large = signed_webhook("/webhook/webhook/acme", "{}");
    large["body"] = "A".repeat(2 * 1024 * 1024).into();
    large["isBase64Encoded"] = true.into();
    assert_eq!(reply(&engine, large).await["statusCode"], 413);
    let mut bodiless = signed_webhook("/webhook/webhook/acme", "");
    bodiless["body"] = Value::Null;
    assert_eq!(reply(&engine, bodiless).await["statusCode"], 400);
    for path in
        ["", "/", "/webhook", "/webhook/webhook", "/webhook/webhook/umbrella", "/webhook/webhook/acme/"]
    {
        assert_eq!(reply(&engine, signed_webhook(path, "{}")).await["statusCode"], 401, "{path}");
    }
    assert_eq!(messages(&engine).await, 0);
}

/// A slash command as Slack sends it.
fn slash_command(path: &str, secret: &str) -> Value {
    let body = "team_id=T0SIM&user_id=U0BEN&command=%2Fcountersign&text=approvals";
    let mut event = event(path, "slack", secret, body);
    let time = event["headers"]["x-slack-timestamp"].take();
    event["headers"]["x-slack-request-timestamp"] = time;
    event["headers"].as_object_mut().unwrap().remove("x-slack-timestamp");
    event
}

#[tokio::test]
async fn slack_retry_headers_are_ignored() {
    let mut again = slash_command("/slack/commands/acme", "SLACK");
    again["headers"]["x-slack-retry-num"] = "1".into();
    again["headers"]["x-slack-retry-reason"] = "http_timeout".into();
    let accepted = on_slack(&engine(), &slack_installations(), &parse(again)).await;
    assert!(accepted.status() == 200 && accepted.body().contains("not registered here"), "{accepted:?}");
}

#[tokio::test]
async fn slack_request_is_valid_for_its_tenant_only() {
    let (engine, installations) = (engine(), slack_installations());
    let sent = |path: &str, secret: &str| parse(slash_command(path, secret));
    let accepted = on_slack(&engine, &installations, &sent("/slack/commands/acme", "SLACK")).await;
    assert!(accepted.status() == 200 && accepted.body().contains("not registered here"), "{accepted:?}");
    for (path, secret) in [
        ("/slack/commands/acme", "HOOK"),
        ("/slack/commands/umbrella", "SLACK"),
        ("/slack/elsewhere/acme", "SLACK"),
        ("/slack/commands", "SLACK"),
    ] {
        let refused = on_slack(&engine, &installations, &sent(path, secret)).await;
        assert_eq!(
            (refused.status().as_u16(), refused.body().as_str()),
            (401, "invalid signature"),
            "{path}"
        );
    }
    let unreadable = on_slack(&engine, &installations, &sent("/slack/interactions/acme", "SLACK")).await;
    assert_eq!(unreadable.status(), 400);
}
