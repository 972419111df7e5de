//! The doors over plain HTTP: whatever cannot be taken in is refused in the doors' own words.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use connectors::Toolbox;
use countersign_ingress::served::{slack, webhooks};
use countersign_ingress::slack::SlackInstallations;
use countersign_ingress::webhook::{BODY_BYTES_MAX, WebhookAuth};
use engine::{Engine, Parts, Timing};
use serde_json::Value;
use store::{SqliteOptions, SqliteStore, SystemClock};
use tower::ServiceExt as _;

fn router() -> Router {
    let engine = Arc::new(Engine::new(Parts {
        store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
        tools: Toolbox::default(),
        clock: Arc::new(SystemClock),
        me: "door".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    }));
    webhooks(Arc::clone(&engine), WebhookAuth::default()).merge(slack(engine, SlackInstallations::default()))
}

/// What is replied: the status, and what is said.
async fn told(path: &str, bytes: usize) -> (u16, String) {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(vec![b' '; bytes])).unwrap();
    let reply = router().oneshot(request).await.unwrap();
    let status = reply.status().as_u16();
    let body = axum::body::to_bytes(reply.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// What is replied to a delivery: the status, and the problem's code.
async fn refused(path: &str, bytes: usize) -> (u16, String) {
    let (status, body) = told(path, bytes).await;
    let problem: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
    (status, problem["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_delivery_that_cannot_be_taken_in_is_refused_in_the_doors_own_words() {
    let too_large = (413, "TOO_LARGE".to_owned());
    for bytes in [BODY_BYTES_MAX + 1, 26 * 1024 * 1024] {
        assert_eq!(refused("/webhook/servicenow/acme", bytes).await, too_large, "{bytes}");
    }
    let unproved = (401, "UNPROVED".to_owned());
    for path in ["/webhook/servicenow/acme", "/webhook/servicenow/%FF", "/webhook/%FF/acme"] {
        assert_eq!(refused(path, BODY_BYTES_MAX).await, unproved, "{path}");
    }
}

#[tokio::test]
async fn what_slack_cannot_have_sent_is_refused_like_anything_unsigned() {
    let unsigned = told("/slack/interactions/acme", 1).await;
    assert_eq!(unsigned.0, 401);
    for (path, bytes) in [("/slack/interactions/%FF", 1), ("/slack/commands/acme", 26 * 1024 * 1024)] {
        assert_eq!(told(path, bytes).await, unsigned, "{path}");
    }
}
