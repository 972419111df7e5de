//! Runs, from start to evidence.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use countersign_contract::ContractEnv;
use domain::{Digest, Millis, QueueName, Role, RunId, TraceContext};
use serde_json::json;
use store::Queue as _;

#[tokio::test]
async fn run_lifecycle() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Operator);
    let started = env.post(key, "/runs", &json!({ "workflow": "waits", "input": { "a": 1 } })).await;
    assert_eq!(started.status, 201);
    let run: RunId = started.json()["run"].as_str().unwrap().parse().unwrap();
    assert_eq!(started.header("location"), format!("/api/v1/runs/{run}"));
    let path = format!("/runs/{run}");
    assert_eq!(env.get(key, &path).await.json()["status"], "queued");
    let paused = env.post(key, &format!("{path}/pause"), &json!({ "reason": "wait" })).await;
    assert_eq!(paused.json(), json!({ "run": run, "status": "paused", "result": "done" }));
    let resumed = env.post(key, &format!("{path}/resume"), &json!({})).await;
    assert_eq!(resumed.json()["result"], "done", "{}", resumed.text());
    env.advance(&env.acme, &run).await;
    assert_eq!(env.get(key, &path).await.json()["status"], "waiting_event");
    let signal = json!({ "id": "s1", "event": "news.came", "payload": { "n": 1 } });
    let delivered = env.post(key, &format!("{path}/signals"), &signal).await;
    assert_eq!(delivered.json(), json!({ "delivery": "delivered" }), "{}", delivered.text());
    let again = env.post(key, &format!("{path}/signals"), &signal).await;
    assert_eq!(again.json(), json!({ "delivery": "duplicate" }));
    let over = env.post(key, &format!("{path}/cancel"), &json!({})).await;
    assert_eq!(over.status_and_code(), (409, "RUN_TERMINAL_STATE".to_owned()));
    assert!(over.json()["remedy"].as_str().unwrap().contains("undo"));
}

/// Starts a run with these `traceparent` headers.
async fn start_traced(env: &ContractEnv, headers: &[&str]) -> RunId {
    let mut request = Request::post("/api/v1/runs")
        .header("authorization", format!("Bearer {}", env.acme.key(Role::Operator)))
        .header("content-type", "application/json");
    for header in headers {
        request = request.header("traceparent", *header);
    }
    let reply = env.send(request.body(Body::from(json!({ "workflow": "waits" }).to_string())).unwrap()).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["run"].as_str().unwrap().parse().unwrap()
}

/// The trace contexts of the queued messages of `run`.
async fn traces(env: &ContractEnv, run: &RunId) -> Vec<TraceContext> {
    let mut traces = Vec::new();
    for queue in QueueName::ALL {
        let received =
            env.engine.store().receive(queue, 100, Millis::hours(1), Duration::ZERO).await.unwrap();
        traces.extend(received.iter().filter(|message| message.run.run == *run).map(|message| message.trace));
    }
    traces
}

/// Also after a later signal without a trace context.
#[tokio::test]
async fn run_keeps_the_trace_of_its_request() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let env = ContractEnv::new().await;
    let run = start_traced(&env, &[parent]).await;
    assert_eq!(traces(&env, &run).await, [parent.parse().unwrap()]);
    env.advance(&env.acme, &run).await;

    let signal = json!({ "id": "s1", "event": "news.came" });
    let path = format!("/runs/{run}/signals");
    assert_eq!(env.post(env.acme.key(Role::Operator), &path, &signal).await.status, 200);

    assert_eq!(traces(&env, &run).await, [parent.parse().unwrap()]);
}

#[tokio::test]
async fn run_without_trace_context_gets_its_own() {
    let env = ContractEnv::new().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for unusable in [&[][..], &["not a trace context"], &[parent, parent]] {
        let run = start_traced(&env, unusable).await;
        let key = domain::RunKey { tenant: env.acme.tenant.clone(), run: run.clone() };
        assert_eq!(traces(&env, &run).await, [TraceContext::of_run(&key)], "{unusable:?}");
    }
}

#[tokio::test]
async fn run_list_is_paged() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Viewer);
    let all = env.get(key, "/runs").await.json();
    let (mut seen, mut path) = (Vec::new(), "/runs?limit=1".to_owned());
    loop {
        let page = env.get(key, &path).await.json();
        seen.extend(page["runs"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => path = format!("/runs?limit=1&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(json!(seen), all["runs"]);
    let paused = env.get(key, "/runs?status=paused").await.json();
    assert_eq!(paused["runs"][0]["run"], json!(env.acme.runs.paused));
    assert_eq!(paused["runs"].as_array().unwrap().len(), 1);
    assert_eq!(env.get(key, "/runs?status=lost").await.status_and_code(), (400, "BAD_REQUEST".to_owned()));
}

#[tokio::test]
async fn runs_are_filtered_by_record_and_time() {
    let env = ContractEnv::new().await;
    let (key, record) = (env.acme.key(Role::Operator), "github:acme/shop#7");
    let about = json!({ "workflow": "plain", "record": record });
    for _ in 0..2 {
        assert_eq!(env.post(key, "/runs", &about).await.status, 201);
    }
    let path = "/runs?record=github:acme/shop%237&limit=1";
    let first = env.get(key, path).await.json();
    assert_eq!(first["runs"][0]["record"], record);
    let cursor = first["next"].as_str().unwrap();
    let second = env.get(key, &format!("{path}&cursor={cursor}")).await.json();
    assert_eq!((&second["runs"][0]["record"], &second["next"]), (&json!(record), &json!(null)));
    assert_ne!(second["runs"][0]["run"], first["runs"][0]["run"]);
    let elsewhere = env.get(key, &format!("/runs?limit=1&cursor={cursor}")).await;
    assert_eq!(
        elsewhere.status_and_code(),
        (400, "BAD_REQUEST".to_owned()),
        "a cursor is good for one filter"
    );

    let count = async |path: &str| env.get(key, path).await.json()["runs"].as_array().unwrap().len();
    assert_eq!(count("/runs?since=2000-01-01T00:00:00Z").await, 6);
    assert_eq!(count("/runs?until=2000-01-01T00:00:00Z").await, 0);
    assert_eq!(count("/runs?since=2000-01-01T00:00:00Z&status=paused").await, 1);
    assert_eq!(count("/runs?workspace=default").await, 6);
    assert_eq!(count("/runs?workspace=payments").await, 0);
    for bad in [
        "/runs?workspace=a%20b",
        "/runs?since=yesterday",
        "/runs?until=2026",
        "/runs?record=incident",
        "/runs?record=a:b%20c",
    ] {
        assert_eq!(env.get(key, bad).await.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{bad}");
    }
}

/// Events after a number.
#[tokio::test]
async fn events_are_paged_by_number() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Viewer);
    let path = format!("/runs/{}/events", env.acme.runs.finished);
    let all = env.get(key, &path).await.json();
    let events = all["events"].as_array().unwrap();
    assert_eq!(all["total"], events.len());
    assert!(events[0]["text"].as_str().unwrap().starts_with("started by olga"));
    assert_eq!(events[0]["hash"].as_str().unwrap().len(), 64);
    let first = env.get(key, &format!("{path}?limit=1")).await.json();
    assert_eq!((&first["events"][0], &first["next"]), (&events[0], &json!(0)));
    let rest = env.get(key, &format!("{path}?after=0")).await.json();
    assert_eq!(rest["events"].as_array().unwrap()[..], events[1..]);
    for after in ["4294967295", "99"] {
        let none = env.get(key, &format!("{path}?after={after}")).await.json();
        assert_eq!((&none["events"], &none["next"]), (&json!([]), &json!(null)));
    }
    for after in ["-1", "4294967296", "x"] {
        assert_eq!(env.get(key, &format!("{path}?after={after}")).await.status, 400, "{after}");
    }
}

#[tokio::test]
async fn evidence_has_a_digest_and_verifies() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Viewer);
    let run = &env.acme.runs.finished;
    let file = env.get(key, &format!("/runs/{run}/evidence")).await;
    let digest = Digest::of_bytes(&file.bytes);
    assert_eq!(file.header("etag"), format!("\"{digest}\""));
    let spelled = base64::prelude::BASE64_STANDARD.encode(digest.as_bytes());
    assert_eq!(file.header("repr-digest"), format!("sha-256=:{spelled}:"));
    assert_eq!(file.header("content-disposition"), format!("attachment; filename=\"{run}.bundle\""));
    let found = env.get(key, &format!("/runs/{run}/evidence/verification")).await.json();
    assert_eq!((&found["verified"], &found["sha256"]), (&json!(true), &json!(digest)));
    let early = env.get(key, &format!("/runs/{}/evidence", env.acme.runs.asking)).await;
    assert_eq!(early.status_and_code(), (404, "NO_EVIDENCE".to_owned()));
    let receipts = env.get(key, &format!("/runs/{run}/receipts")).await;
    assert_eq!(receipts.json(), json!({ "receipts": [] }));
}

#[tokio::test]
async fn impossible_undo_is_refused() {
    let env = ContractEnv::new().await;
    let operator = env.acme.key(Role::Operator);
    let finished = format!("/runs/{}/undo", env.acme.runs.finished);
    assert_eq!(env.get(operator, &finished).await.json()["effects"], json!([]));
    let reply = env.post(operator, &finished, &json!({})).await;
    assert_eq!(reply.status_and_code(), (409, "RUN_INVALID_TRANSITION".to_owned()));
    let asking = format!("/runs/{}", env.acme.runs.asking);
    assert_eq!(
        env.get(operator, &format!("{asking}/undo")).await.status_and_code(),
        (409, "RUN_NOT_FINISHED".to_owned())
    );
    let reply = env.post(operator, &format!("{asking}/rollback"), &json!({})).await;
    assert_eq!(reply.status_and_code(), (409, "RUN_INVALID_TRANSITION".to_owned()), "{}", reply.text());
}

#[tokio::test]
async fn unknown_workflow_is_not_started() {
    let env = ContractEnv::new().await;
    let reply = env.post(env.acme.key(Role::Operator), "/runs", &json!({ "workflow": "none" })).await;
    assert_eq!(reply.status_and_code(), (404, "NO_WORKFLOW".to_owned()));
    // Nor a workflow of another tenant.
    let other = json!({ "workflow": "only-umbrella" });
    let other = env.post(env.acme.key(Role::Operator), "/runs", &other).await;
    assert_eq!(other.text().replace("only-umbrella", "none"), reply.text());
}
