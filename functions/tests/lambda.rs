//! The doors as a gateway sees them: an event in, a reply out.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use config::Systems;
use countersign_functions::lambda::{self, HttpEvent, HttpReply, on_slack, on_webhook};
use domain::{Millis, QueueName};
use engine::Engine;
use ingress::slack::SlackInstallations;
use ingress::webhook::WebhookAuth;
use serde_json::{Value, json};
use store::{Queue as _, SqliteOptions, SqliteStore};

const SOURCES: &str = "- { tenant: acme, source: webhook, scheme: hmac, secret: HOOK }";
const SYSTEMS: &str = "slack: { base: 'http://127.0.0.1:9', token_env: TOKEN, channel: C0APPROVALS,\n  \
                       doors: [ { tenant: acme, secret_env: SLACK } ] }";

fn secret(name: &str) -> String {
    format!("the secret that is called {name}")
}

fn engine() -> Engine<SqliteStore> {
    lambda::engine(SqliteStore::memory(SqliteOptions::default()).unwrap(), "door").unwrap()
}

fn doors() -> WebhookAuth {
    lambda::doors(SOURCES, &|name| Some(secret(name))).unwrap()
}

fn slack_installations() -> SlackInstallations {
    lambda::slack_installations(&Systems::parse(SYSTEMS).unwrap(), &|name| Some(secret(name))).unwrap()
}

/// `body` as a gateway hands it over, signed now under `secret`, with headers whose names begin with `prefix`.
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

fn hooked(path: &str, body: &str) -> Value {
    event(path, "countersign", "HOOK", body)
}

fn read(event: Value) -> HttpEvent {
    serde_json::from_value(event).unwrap()
}

async fn reply(engine: &Engine<SqliteStore>, event: Value) -> Value {
    serde_json::to_value(HttpReply::from(on_webhook(engine, &doors(), &read(event)).await)).unwrap()
}

async fn messages(engine: &Engine<SqliteStore>) -> usize {
    engine.store().receive(QueueName::Ingest, 10, Millis::mins(1), Duration::ZERO).await.unwrap().len()
}

#[tokio::test]
async fn a_delivery_is_accepted_in_the_words_of_the_gateway() {
    let engine = engine();
    for path in ["/webhook/webhook/acme", "/prod/webhook/webhook/acme"] {
        let said = reply(&engine, hooked(path, &json!({ "id": path }).to_string())).await;
        assert_eq!((&said["statusCode"], &said["isBase64Encoded"]), (&json!(202), &json!(false)), "{said}");
        assert_eq!(said["headers"]["content-type"], "application/json");
        assert!(said["body"].as_str().unwrap().contains("accepted"), "{said}");
        assert_eq!(messages(&engine).await, 1);
    }
}

#[tokio::test]
async fn a_body_in_base64_is_proved_by_the_bytes_it_stands_for() {
    let engine = engine();
    let mut encoded = hooked("/webhook/webhook/acme", r#"{"id":1}"#);
    encoded["body"] = BASE64_STANDARD.encode(r#"{"id":1}"#).into();
    assert_eq!(reply(&engine, encoded.clone()).await["statusCode"], 401);
    let mut lies = hooked("/webhook/webhook/acme", r#"{"id":1}"#);
    lies["isBase64Encoded"] = true.into();
    assert_eq!(reply(&engine, lies).await["statusCode"], 401);
    assert_eq!(messages(&engine).await, 0);
    encoded["isBase64Encoded"] = true.into();
    assert_eq!(reply(&engine, encoded).await["statusCode"], 202);
}

#[tokio::test]
async fn what_is_too_large_is_not_decoded_and_what_has_no_door_is_not_looked_at() {
    let engine = engine();
    let mut large = hooked("/webhook/webhook/acme", "{}");
    large["body"] = "A".repeat(2 * 1024 * 1024).into();
    large["isBase64Encoded"] = true.into();
    assert_eq!(reply(&engine, large).await["statusCode"], 413);
    let mut bodiless = hooked("/webhook/webhook/acme", "");
    bodiless["body"] = Value::Null;
    assert_eq!(reply(&engine, bodiless).await["statusCode"], 400);
    for path in
        ["", "/", "/webhook", "/webhook/webhook", "/webhook/webhook/umbrella", "/webhook/webhook/acme/"]
    {
        assert_eq!(reply(&engine, hooked(path, "{}")).await["statusCode"], 401, "{path}");
    }
    assert_eq!(messages(&engine).await, 0);
}

/// A slash command as Slack sends it.
fn typed(path: &str, secret: &str) -> Value {
    let body = "team_id=T0SIM&user_id=U0BEN&command=%2Fcountersign&text=approvals";
    let mut event = event(path, "slack", secret, body);
    let time = event["headers"]["x-slack-timestamp"].take();
    event["headers"]["x-slack-request-timestamp"] = time;
    event["headers"].as_object_mut().unwrap().remove("x-slack-timestamp");
    event
}

#[tokio::test]
async fn a_request_that_only_arrives_when_slack_sends_it_again_is_heard() {
    let mut again = typed("/slack/commands/acme", "SLACK");
    again["headers"]["x-slack-retry-num"] = "1".into();
    again["headers"]["x-slack-retry-reason"] = "http_timeout".into();
    let heard = on_slack(&engine(), &slack_installations(), &read(again)).await;
    assert!(heard.status == 200 && heard.body.contains("not known here"), "{}", heard.body);
}

#[tokio::test]
async fn slack_is_heard_at_its_tenants_door_alone() {
    let (engine, doors) = (engine(), slack_installations());
    let sent = |path: &str, secret: &str| read(typed(path, secret));
    let heard = on_slack(&engine, &doors, &sent("/slack/commands/acme", "SLACK")).await;
    assert!(heard.status == 200 && heard.body.contains("not known here"), "{}", heard.body);
    for (path, secret) in [
        ("/slack/commands/acme", "HOOK"),
        ("/slack/commands/umbrella", "SLACK"),
        ("/slack/elsewhere/acme", "SLACK"),
        ("/slack/commands", "SLACK"),
    ] {
        let refused = on_slack(&engine, &doors, &sent(path, secret)).await;
        assert_eq!((refused.status, refused.body.as_str()), (401, "the signature does not hold"), "{path}");
    }
    let unreadable = on_slack(&engine, &doors, &sent("/slack/interactions/acme", "SLACK")).await;
    assert_eq!(unreadable.status, 400);
}
