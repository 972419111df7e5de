//! The outcome of `http.request` for each kind of failure.

use std::time::{Duration, Instant};

use connectors::ToolOutcome;
use domain::command::EffectOutcome::{self, DidNotHappen, MayHaveHappened};
use domain::{Action, Failure, Millis, TraceContext};
use serde_json::{Value, json};
use testkit::{HttpStub, StubEnding, StubReply};

use crate::support::{attempt, perform, propose, tool};

/// Short enough for a test, long enough for a loaded machine to connect.
const SHORT: &str = "1s";

fn with(server: &HttpStub, effect: &str) -> Value {
    let headers = json!({"if-match": "\"v1\"", "x-note": "s3cret"});
    let url = server.url("/orders?token=s3cret");
    let mut with = json!({"method": method(effect), "url": url, "effect": effect, "headers": headers});
    if effect != "read_only" {
        with["body"] = json!({"sku": 1});
    }
    with
}

fn action(server: &HttpStub, effect: &str) -> Action {
    propose(tool(), with(server, effect)).unwrap()
}

async fn call(server: &HttpStub, effect: &str) -> ToolOutcome {
    perform(tool(), &action(server, effect)).await
}

/// A call with a short timeout.
async fn call_briefly(server: &HttpStub, effect: &str) -> ToolOutcome {
    let mut with = with(server, effect);
    with["timeout"] = json!(SHORT);
    perform(tool(), &propose(tool(), with).unwrap()).await
}

/// The kind of outcome, and the failure's text.
fn classify(outcome: &ToolOutcome) -> (&'static str, String) {
    match outcome {
        ToolOutcome::Done(done) => ("done", done.output.to_string()),
        ToolOutcome::Terminal(failure) => ("terminal", text(failure)),
        ToolOutcome::Retryable { failure, certainty: DidNotHappen, .. } => ("did not happen", text(failure)),
        ToolOutcome::Retryable { failure, certainty: MayHaveHappened, .. } => {
            ("may have happened", text(failure))
        }
    }
}

fn text(failure: &Failure) -> String {
    assert!(!failure.message.contains("s3cret"), "{}", failure.message);
    format!("{}: {}", failure.code, failure.message)
}

async fn outcome_kind(server: &HttpStub, effect: &str) -> &'static str {
    classify(&call(server, effect).await).0
}

fn answering(status: u16) -> HttpStub {
    HttpStub::answering(StubReply::new(status, "retry-after: 7\r\n", ""))
}

#[tokio::test]
async fn status_and_class_decide_the_outcome() {
    let (did_not_happen, may_have_happened) = ("did not happen", "may have happened");
    let table = [
        (200, ["done"; 4]),
        (201, ["done"; 4]),
        (204, ["done"; 4]),
        (302, ["terminal", may_have_happened, may_have_happened, may_have_happened]),
        (303, ["terminal", may_have_happened, may_have_happened, may_have_happened]),
        (304, ["done", may_have_happened, may_have_happened, may_have_happened]),
        (307, ["terminal"; 4]),
        (308, ["terminal"; 4]),
        (400, ["terminal"; 4]),
        (401, ["terminal"; 4]),
        (404, ["terminal"; 4]),
        (408, [did_not_happen, may_have_happened, may_have_happened, may_have_happened]),
        (409, ["terminal", may_have_happened, "terminal", "terminal"]),
        (412, ["terminal"; 4]),
        (422, ["terminal"; 4]),
        (425, [did_not_happen; 4]),
        (429, [did_not_happen; 4]),
        (500, [did_not_happen, may_have_happened, may_have_happened, may_have_happened]),
        (501, [did_not_happen, may_have_happened, may_have_happened, may_have_happened]),
        (503, [did_not_happen, may_have_happened, may_have_happened, may_have_happened]),
        (504, [did_not_happen, may_have_happened, may_have_happened, may_have_happened]),
        (799, [did_not_happen, may_have_happened, may_have_happened, may_have_happened]),
    ];
    for (status, expected) in table {
        let server = answering(status);
        for (effect, expected) in
            ["read_only", "native_key", "compare_and_set", "opaque"].into_iter().zip(expected)
        {
            assert_eq!(outcome_kind(&server, effect).await, expected, "{status} for {effect}");
        }
    }
}

#[tokio::test]
async fn after_open_attempt_only_success_is_certain() {
    for (status, effect, expected) in [
        (200, "compare_and_set", "done"),
        (412, "compare_and_set", "may have happened"),
        (404, "native_key", "may have happened"),
        (429, "native_key", "may have happened"),
        (400, "opaque", "may have happened"),
        (404, "read_only", "terminal"),
    ] {
        let server = answering(status);
        let outcome = attempt(tool(), &action(&server, effect), Duration::from_mins(1), true).await;
        assert_eq!(classify(&outcome).0, expected, "{status} for {effect}");
    }
}

#[tokio::test]
async fn request_without_reply_may_have_acted() {
    for effect in ["native_key", "compare_and_set", "opaque"] {
        let closing = HttpStub::answering(StubReply::none());
        assert_eq!(outcome_kind(&closing, effect).await, "may have happened");
        let resetting = HttpStub::answering(StubReply::none().then(StubEnding::Reset));
        assert_eq!(outcome_kind(&resetting, effect).await, "may have happened");
        let stalling = HttpStub::answering(StubReply::none().then(StubEnding::Stall));
        assert_eq!(classify(&call_briefly(&stalling, effect).await).0, "may have happened");
        let flooding = HttpStub::answering(StubReply::none().then(endless_body()));
        assert_eq!(outcome_kind(&flooding, effect).await, "may have happened");
    }
}

#[tokio::test]
async fn refused_connection_sends_nothing() {
    let refusing = HttpStub::refusing();
    let (outcome, text) = classify(&call(&refusing, "opaque").await);
    assert_eq!(outcome, "did not happen", "{text}");
    assert!(text.contains("Connection refused"), "{text}");
    let again = attempt(tool(), &action(&refusing, "opaque"), Duration::from_mins(1), true).await;
    assert_eq!(classify(&again).0, "may have happened", "an earlier attempt may still have acted");
}

#[tokio::test]
async fn failed_handshake_sends_nothing() {
    let server = HttpStub::answering(StubReply::none());
    let mut with = with(&server, "opaque");
    with["url"] = json!(server.url("/").replace("http:", "https:"));
    let action = propose(tool(), with).unwrap();
    assert_eq!(classify(&perform(tool(), &action).await).0, "did not happen");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn stalled_handshake_sends_nothing() {
    // The kernel accepts the connection; no process answers the handshake.
    let silent = HttpStub::silent();
    let mut with = with(&silent, "opaque");
    with["timeout"] = json!(SHORT);
    with["url"] = json!(silent.url("/").replace("http:", "https:"));
    let action = propose(tool(), with).unwrap();
    assert_eq!(classify(&perform(tool(), &action).await).0, "did not happen");
}

#[tokio::test]
async fn lease_ends_a_call_before_its_timeout() {
    let server = HttpStub::answering(StubReply::none().then(StubEnding::Stall));
    let mut with = with(&server, "opaque");
    with["timeout"] = json!("5m");
    let action = propose(tool(), with).unwrap();
    let started = Instant::now();
    let outcome = attempt(tool(), &action, Duration::from_secs(1), false).await;
    assert_eq!(classify(&outcome).0, "may have happened");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn nothing_is_sent_without_time_left() {
    let server = answering(200);
    let outcome = attempt(tool(), &action(&server, "opaque"), Duration::ZERO, false).await;
    assert_eq!(classify(&outcome).0, "did not happen");
    assert!(server.requests().is_empty());
}

fn replies_with_success_head(ending: StubEnding) -> HttpStub {
    HttpStub::answering(StubReply::head(200).then(ending))
}

/// Sends as much as the client reads.
fn endless_body() -> StubEnding {
    StubEnding::Repeat(".".repeat(16_384), Duration::ZERO)
}

#[tokio::test]
async fn incomplete_reply_is_retried_where_safe() {
    let slow_body = StubEnding::Repeat(".".to_owned(), Duration::from_millis(10));
    for ending in [slow_body, StubEnding::Close] {
        let server = replies_with_success_head(ending);
        assert_eq!(classify(&call_briefly(&server, "read_only").await).0, "did not happen");
        assert_eq!(classify(&call_briefly(&server, "native_key").await).0, "may have happened");
        for effect in ["compare_and_set", "opaque"] {
            let (outcome, output) = classify(&call_briefly(&server, effect).await);
            assert_eq!(outcome, "done", "the status is a success: {output}");
            assert!(output.contains(r#""body":null"#) && output.contains(r#""truncated":true"#), "{output}");
        }
    }
}

#[tokio::test]
async fn endless_reply_is_truncated() {
    let server = replies_with_success_head(endless_body());
    let (outcome, text) = classify(&call(&server, "read_only").await);
    assert_eq!(outcome, "terminal");
    assert!(text.starts_with("HTTP_REPLY_TOO_LARGE"), "{text}");
    for effect in ["native_key", "compare_and_set", "opaque"] {
        let ToolOutcome::Done(done) = call(&server, effect).await else { panic!("{effect}") };
        assert_eq!(done.output["truncated"], true);
    }
}

#[tokio::test]
async fn retry_after_is_returned() {
    for (status, certainty) in [(429, DidNotHappen), (503, MayHaveHappened)] {
        let server = answering(status);
        assert_eq!(retry_after_of(call(&server, "opaque").await), (certainty, Some(Millis::secs(7))));
    }
    let too_long = HttpStub::answering(StubReply::new(429, "retry-after: 99999999\r\n", ""));
    assert_eq!(retry_after_of(call(&too_long, "opaque").await).1, Some(Millis::hours(24)));
    let dated = HttpStub::answering(StubReply::new(
        429,
        "retry-after: Sat, 29 Feb 2020
",
        "",
    ));
    assert_eq!(retry_after_of(call(&dated, "opaque").await).1, None);
}

fn retry_after_of(outcome: ToolOutcome) -> (EffectOutcome, Option<Millis>) {
    match outcome {
        ToolOutcome::Retryable { certainty, retry_after, .. } => (certainty, retry_after),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn error_has_host_and_path_without_query() {
    let server = answering(404);
    let (_, text) = classify(&call(&server, "opaque").await);
    assert_eq!(text, format!("HTTP_STATUS: {}/orders answered 404 Not Found", server.address()));
}

#[tokio::test]
async fn request_is_sent_as_proposed() {
    let headers = "content-type: application/json
etag: \"v2\"
";
    let server = HttpStub::answering(StubReply::new(201, headers, r#"{"id":7}"#));
    let action = action(&server, "opaque");
    let ToolOutcome::Done(done) = perform(tool(), &action).await else { panic!("not done") };
    assert_eq!(
        done.output,
        json!({
            "status": 201, "body": {"id": 7}, "truncated": false,
            "headers": {"content-type": "application/json", "etag": "\"v2\""},
        })
    );
    let seen = server.requests().swap_remove(0);
    assert!(seen.head.starts_with("POST /orders?token=s3cret HTTP/1.1\r\n"), "{seen:?}");
    assert_eq!(seen.body, "{\"sku\":1}");
    assert_eq!(seen.header("host"), Some(&*server.address().to_string()));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("idempotency-key"), Some(action.key.as_str()));
    assert_eq!(action.target, format!("{}/orders", server.address()));
}

#[tokio::test]
async fn request_without_effect_has_no_key() {
    let server = answering(200);
    assert_eq!(outcome_kind(&server, "read_only").await, "done");
    assert_eq!(server.requests()[0].header("idempotency-key"), None);
}

/// Only GET and HEAD can be read-only.
fn method(effect: &str) -> &'static str {
    if effect == "read_only" { "GET" } else { "POST" }
}

#[tokio::test]
async fn failure_shows_what_the_server_says() {
    let body = r#"{"error": "sku 17 is unknown", "sent": "s3cret", "token": "hunter2"}"#;
    for status in [400, 404, 422, 500] {
        let server = HttpStub::answering(StubReply::json(status, body));
        let (_, text) = classify(&call(&server, "native_key").await);
        assert!(text.contains("sku 17 is unknown"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn error_body_that_never_ends_does_not_delay_the_outcome() {
    let endless = StubEnding::Repeat("x".to_owned(), Duration::from_millis(50));
    let server = HttpStub::answering(StubReply::head(404).then(endless));
    let asked = Instant::now();
    assert_eq!(classify(&call(&server, "read_only").await).0, "terminal");
    assert!(asked.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn request_names_the_trace_of_its_run() {
    let server = answering(204);
    let context: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    connectors::in_trace(context, call(&server, "read_only")).await;
    call(&server, "read_only").await;
    let sent: Vec<_> =
        server.requests().iter().map(|request| request.header("traceparent").map(str::to_owned)).collect();
    assert_eq!(sent, [Some(context.to_string()), None]);
}
