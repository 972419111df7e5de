//! The axum routes reject malformed requests with the same responses as the Lambda functions.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use countersign_ingress::routes::{slack, webhooks};
use countersign_ingress::slack::SlackInstallations;
use countersign_ingress::webhook::{BODY_BYTES_MAX, WebhookAuth};
use serde_json::Value;
use tower::ServiceExt as _;

fn router() -> Router {
    let engine = Arc::new(testkit::engine().me("ingress").build());
    webhooks(Arc::clone(&engine), WebhookAuth::default()).merge(slack(engine, SlackInstallations::default()))
}

/// The status and body of the response.
async fn respond(path: &str, bytes: usize) -> (u16, String) {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
    let request = request.body(Body::from(vec![b' '; bytes])).unwrap();
    let reply = router().oneshot(request).await.unwrap();
    let status = reply.status().as_u16();
    let body = axum::body::to_bytes(reply.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// The status and problem code of the response.
async fn problem(path: &str, bytes: usize) -> (u16, String) {
    let (status, body) = respond(path, bytes).await;
    let body: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn malformed_delivery_gets_the_handlers_response() {
    let too_large = (413, "TOO_LARGE".to_owned());
    for bytes in [BODY_BYTES_MAX + 1, 26 * 1024 * 1024] {
        assert_eq!(problem("/webhook/servicenow/acme", bytes).await, too_large, "{bytes}");
    }
    let unauthenticated = (401, "UNAUTHENTICATED".to_owned());
    for path in ["/webhook/servicenow/acme", "/webhook/servicenow/%FF", "/webhook/%FF/acme"] {
        assert_eq!(problem(path, BODY_BYTES_MAX).await, unauthenticated, "{path}");
    }
}

#[tokio::test]
async fn malformed_slack_request_is_treated_as_unsigned() {
    let unsigned = respond("/slack/interactions/acme", 1).await;
    assert_eq!(unsigned.0, 401);
    for (path, bytes) in [("/slack/interactions/%FF", 1), ("/slack/commands/acme", 26 * 1024 * 1024)] {
        assert_eq!(respond(path, bytes).await, unsigned, "{path}");
    }
}
