//! The named cases of *Parsing and size* for the API: an error response, and no run.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::Request;
use countersign_contract::{ContractEnv, Reply};
use domain::Role;
use serde_json::json;

async fn raw(env: &ContractEnv, kind: &str, body: impl Into<Body>) -> Reply {
    let request = Request::post("/api/v1/runs")
        .header("authorization", format!("Bearer {}", env.acme.key(Role::Operator)))
        .header("content-type", kind);
    env.send(request.body(body.into()).unwrap()).await
}

/// The body is refused with 400 and `text`, and starts no run.
async fn refused(body: impl Into<Body>, text: &str) {
    let env = ContractEnv::new().await;
    let before = env.get(env.acme.key(Role::Viewer), "/runs").await;
    let reply = raw(&env, "application/json", body).await;
    assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{}", reply.text());
    assert!(reply.text().contains(text), "{}", reply.text());
    assert_eq!(reply.header("content-type"), "application/problem+json");
    assert_eq!(env.get(env.acme.key(Role::Viewer), "/runs").await, before);
}

fn with_input(input: &str) -> String {
    format!(r#"{{"workflow":"plain","input":{input}}}"#)
}

#[tokio::test]
async fn body_empty() {
    refused("", "the document is empty").await;
}

#[tokio::test]
#[expect(non_snake_case, reason = "the name of the case")]
async fn body_26MB() {
    let env = ContractEnv::new().await;
    let body = with_input(&format!("\"{}\"", "x".repeat(26 * 1024 * 1024)));
    let reply = raw(&env, "application/json", body).await;
    assert_eq!(reply.status_and_code(), (413, "TOO_LARGE".to_owned()));
    let just = with_input(&format!("\"{}\"", "x".repeat(api::BODY_BYTES_MAX)));
    assert_eq!(raw(&env, "application/json", just).await.status, 413);
}

#[tokio::test]
async fn json_depth_10000() {
    refused(with_input(&("[".repeat(10_000) + &"]".repeat(10_000))), "nested more than").await;
}

#[tokio::test]
async fn json_duplicate_keys() {
    refused(r#"{"workflow":"asks","workflow":"plain"}"#, "appears twice").await;
    refused(with_input(r#"{"a":1,"a":2}"#), "appears twice").await;
}

#[tokio::test]
async fn json_int_2_53_plus_1() {
    refused(with_input("9007199254740993"), "beyond 2^53").await;
}

#[tokio::test]
async fn json_1e400() {
    refused(with_input("1e400"), "out of range").await;
}

#[tokio::test]
async fn json_lone_surrogate() {
    refused(with_input(r#""\ud800""#), "hex escape").await;
}

#[tokio::test]
async fn utf8_invalid() {
    refused(b"{\"workflow\":\"plain\",\"input\":\"\xff\"}".to_vec(), "unicode").await;
}

#[tokio::test]
async fn nul_in_string() {
    let env = ContractEnv::new().await;
    let reply = raw(&env, "application/json", with_input(r#""a\u0000\u001bb""#)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    assert!(!reply.text().contains(['\0', '\u{1b}']), "{:?}", reply.text());
    refused(with_input("\"a\0b\""), "control character").await;
}

#[tokio::test]
async fn key_delimiter_in_id() {
    for name in ["a#b", "a:b", "a/b", ".."] {
        refused(json!({ "workflow": name }).to_string(), "workflow name").await;
    }
}

#[tokio::test]
async fn id_2049_bytes() {
    refused(json!({ "workflow": "x".repeat(2049) }).to_string(), "2049 bytes").await;
}

#[tokio::test]
async fn array_is_not_accepted_as_an_object() {
    let env = ContractEnv::new().await;
    let run = &env.acme.runs.waiting;
    for route in ["cancel", "pause", "resume", "retry"] {
        let path = format!("/runs/{run}/{route}");
        let reply = env.post(env.acme.key(Role::Operator), &path, &json!([])).await;
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{route}: {}", reply.text());
    }
    refused(r#"["plain"]"#, "a list, expected an object").await;
}

#[tokio::test]
async fn other_content_type_is_refused() {
    let env = ContractEnv::new().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        let reply = raw(&env, kind, with_input("1")).await;
        assert_eq!(reply.status_and_code(), (415, "UNSUPPORTED_MEDIA_TYPE".to_owned()), "{kind}");
    }
    assert_eq!(raw(&env, "Application/JSON; charset=utf-8", with_input("1")).await.status, 201);
}

async fn applied(source: &str) -> Reply {
    let env = ContractEnv::new().await;
    env.post(env.acme.key(Role::Admin), "/workflows", &json!({ "source": source })).await
}

#[tokio::test]
async fn unknown_field_in_workflow() {
    let source = "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: transform, whith: {} }\n";
    let reply = applied(source).await;
    assert_eq!(reply.status_and_code(), (400, "WORKFLOW_INVALID".to_owned()));
    assert_eq!(reply.json()["location"], json!({ "line": 4, "column": 31 }));
    assert!(reply.text().contains("whith"), "{}", reply.text());
}

#[tokio::test]
async fn yaml_alias_bomb_in_workflow() {
    let mut source = String::from("workflow: w\nversion: 1\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        let line = vec![before; 9].join(", ");
        writeln!(source, "a{level}: &a{level} [{line}]").unwrap();
    }
    assert_eq!(applied(&source).await.status_and_code(), (400, "WORKFLOW_INVALID".to_owned()));
}

#[tokio::test]
async fn workflow_of_10k_steps() {
    let steps = (0..10_000).map(|n| format!("  - {{ id: s{n}, tool: transform, with: {{}} }}\n"));
    let steps = steps.collect::<Vec<_>>().concat();
    let reply = applied(&format!("workflow: w\nversion: 1\nsteps:\n{steps}")).await;
    assert_eq!(reply.status_and_code(), (400, "WORKFLOW_INVALID".to_owned()), "{}", reply.text());
}
