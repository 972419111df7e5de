//! A run, from its start to its evidence.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use countersign_contract::House;
use domain::{Digest, Millis, QueueName, Role, RunId, TraceContext};
use serde_json::json;
use store::Queue as _;

#[tokio::test]
async fn a_run_is_started_seen_paused_signalled_and_stopped() {
    let house = House::new().await;
    let key = house.acme.key(Role::Operator);
    let started = house.post(key, "/runs", &json!({ "workflow": "waits", "input": { "a": 1 } })).await;
    assert_eq!(started.status, 201);
    let run: RunId = started.json()["run"].as_str().unwrap().parse().unwrap();
    assert_eq!(started.header("location"), format!("/api/v1/runs/{run}"));
    let path = format!("/runs/{run}");
    assert_eq!(house.get(key, &path).await.json()["status"], "queued");
    let paused = house.post(key, &format!("{path}/pause"), &json!({ "reason": "wait" })).await;
    assert_eq!(paused.json(), json!({ "run": run, "status": "paused", "status": "done" }));
    let resumed = house.post(key, &format!("{path}/resume"), &json!({})).await;
    assert_eq!(resumed.json()["status"], "done", "{}", resumed.text());
    house.advance(&house.acme, &run).await;
    assert_eq!(house.get(key, &path).await.json()["status"], "waiting_event");
    let signal = json!({ "id": "s1", "event": "news.came", "payload": { "n": 1 } });
    let delivered = house.post(key, &format!("{path}/signals"), &signal).await;
    assert_eq!(delivered.json(), json!({ "delivery": "woke" }), "{}", delivered.text());
    let again = house.post(key, &format!("{path}/signals"), &signal).await;
    assert_eq!(again.json(), json!({ "delivery": "duplicate" }));
    let over = house.post(key, &format!("{path}/cancel"), &json!({})).await;
    assert_eq!(over.told(), (409, "RUN_TERMINAL_STATE".to_owned()));
    assert!(over.json()["remedy"].as_str().unwrap().contains("undo"));
}

/// The run of a new request that tells this of the work that leads to it.
async fn led_to_by(house: &House, told: &[&str]) -> RunId {
    let mut request = Request::post("/api/v1/runs")
        .header("authorization", format!("Bearer {}", house.acme.key(Role::Operator)))
        .header("content-type", "application/json");
    for told in told {
        request = request.header("traceparent", *told);
    }
    let reply =
        house.send(request.body(Body::from(json!({ "workflow": "waits" }).to_string())).unwrap()).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()["run"].as_str().unwrap().parse().unwrap()
}

/// What the messages carry that are there about `run`.
async fn carried(house: &House, run: &RunId) -> Vec<TraceContext> {
    let mut carried = Vec::new();
    for queue in QueueName::ALL {
        let received =
            house.engine.store().receive(queue, 100, Millis::hours(1), Duration::ZERO).await.unwrap();
        carried
            .extend(received.iter().filter(|message| message.run.run == *run).map(|message| message.trace));
    }
    carried
}

/// C17: also what is done much later, upon the word of somebody who tells nothing of it.
#[tokio::test]
async fn a_run_belongs_to_the_work_that_led_to_it_as_long_as_it_goes_on() {
    let told = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let house = House::new().await;
    let run = led_to_by(&house, &[told]).await;
    assert_eq!(carried(&house, &run).await, [told.parse().unwrap()]);
    house.advance(&house.acme, &run).await;

    let signal = json!({ "id": "s1", "event": "news.came" });
    let path = format!("/runs/{run}/signals");
    assert_eq!(house.post(house.acme.key(Role::Operator), &path, &signal).await.status, 200);

    assert_eq!(carried(&house, &run).await, [told.parse().unwrap()]);
}

#[tokio::test]
async fn a_run_that_nothing_readable_is_told_of_has_a_story_of_its_own() {
    let house = House::new().await;
    let told = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for unusable in [&[][..], &["not a trace context"], &[told, told]] {
        let run = led_to_by(&house, unusable).await;
        let key = domain::RunKey { tenant: house.acme.tenant.clone(), run: run.clone() };
        assert_eq!(carried(&house, &run).await, [TraceContext::of_run(&key)], "{unusable:?}");
    }
}

#[tokio::test]
async fn runs_are_listed_page_by_page_without_gap_or_repeat() {
    let house = House::new().await;
    let key = house.acme.key(Role::Viewer);
    let all = house.get(key, "/runs").await.json();
    let (mut seen, mut path) = (Vec::new(), "/runs?limit=1".to_owned());
    loop {
        let page = house.get(key, &path).await.json();
        seen.extend(page["runs"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => path = format!("/runs?limit=1&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(json!(seen), all["runs"]);
    let paused = house.get(key, "/runs?status=paused").await.json();
    assert_eq!(paused["runs"][0]["run"], json!(house.acme.runs.paused));
    assert_eq!(paused["runs"].as_array().unwrap().len(), 1);
    assert_eq!(house.get(key, "/runs?status=lost").await.told(), (400, "BAD_REQUEST".to_owned()));
}

#[tokio::test]
async fn runs_are_listed_by_what_they_are_about_and_by_when_they_began() {
    let house = House::new().await;
    let (key, record) = (house.acme.key(Role::Operator), "github:acme/shop#7");
    let about = json!({ "workflow": "plain", "record": record });
    for _ in 0..2 {
        assert_eq!(house.post(key, "/runs", &about).await.status, 201);
    }
    let path = "/runs?record=github:acme/shop%237&limit=1";
    let first = house.get(key, path).await.json();
    assert_eq!(first["runs"][0]["record"], record);
    let cursor = first["next"].as_str().unwrap();
    let second = house.get(key, &format!("{path}&cursor={cursor}")).await.json();
    assert_eq!((&second["runs"][0]["record"], &second["next"]), (&json!(record), &json!(null)));
    assert_ne!(second["runs"][0]["run"], first["runs"][0]["run"]);
    let elsewhere = house.get(key, &format!("/runs?limit=1&cursor={cursor}")).await;
    assert_eq!(elsewhere.told(), (400, "BAD_REQUEST".to_owned()), "a cursor is good for one filter");

    let count = async |path: &str| house.get(key, path).await.json()["runs"].as_array().unwrap().len();
    assert_eq!(count("/runs?since=2000-01-01T00:00:00Z").await, 6);
    assert_eq!(count("/runs?until=2000-01-01T00:00:00Z").await, 0);
    assert_eq!(count("/runs?since=2000-01-01T00:00:00Z&status=paused").await, 1);
    for bad in ["/runs?since=yesterday", "/runs?until=2026", "/runs?record=incident", "/runs?record=a:b%20c"]
    {
        assert_eq!(house.get(key, bad).await.told(), (400, "BAD_REQUEST".to_owned()), "{bad}");
    }
}

/// C15: events since a cursor.
#[tokio::test]
async fn the_chain_is_read_from_where_one_was() {
    let house = House::new().await;
    let key = house.acme.key(Role::Viewer);
    let path = format!("/runs/{}/events", house.acme.runs.finished);
    let all = house.get(key, &path).await.json();
    let events = all["events"].as_array().unwrap();
    assert_eq!(all["total"], events.len());
    assert!(events[0]["text"].as_str().unwrap().starts_with("started by olga"));
    assert_eq!(events[0]["hash"].as_str().unwrap().len(), 64);
    let first = house.get(key, &format!("{path}?limit=1")).await.json();
    assert_eq!((&first["events"][0], &first["next"]), (&events[0], &json!(0)));
    let rest = house.get(key, &format!("{path}?after=0")).await.json();
    assert_eq!(rest["events"].as_array().unwrap()[..], events[1..]);
    for after in ["4294967295", "99"] {
        let none = house.get(key, &format!("{path}?after={after}")).await.json();
        assert_eq!((&none["events"], &none["next"]), (&json!([]), &json!(null)));
    }
    for after in ["-1", "4294967296", "x"] {
        assert_eq!(house.get(key, &format!("{path}?after={after}")).await.status, 400, "{after}");
    }
}

#[tokio::test]
async fn evidence_comes_with_its_digest_and_the_server_verifies_it() {
    let house = House::new().await;
    let key = house.acme.key(Role::Viewer);
    let run = &house.acme.runs.finished;
    let file = house.get(key, &format!("/runs/{run}/evidence")).await;
    let digest = Digest::of_bytes(&file.bytes);
    assert_eq!(file.header("etag"), format!("\"{digest}\""));
    let spelled = base64::prelude::BASE64_STANDARD.encode(digest.as_bytes());
    assert_eq!(file.header("repr-digest"), format!("sha-256=:{spelled}:"));
    assert_eq!(file.header("content-disposition"), format!("attachment; filename=\"{run}.bundle\""));
    let found = house.get(key, &format!("/runs/{run}/evidence/verification")).await.json();
    assert_eq!((&found["verified"], &found["sha256"]), (&json!(true), &json!(digest)));
    let early = house.get(key, &format!("/runs/{}/evidence", house.acme.runs.asking)).await;
    assert_eq!(early.told(), (404, "NO_EVIDENCE".to_owned()));
    let receipts = house.get(key, &format!("/runs/{run}/receipts")).await;
    assert_eq!(receipts.json(), json!({ "receipts": [] }));
}

#[tokio::test]
async fn what_cannot_be_taken_back_says_so() {
    let house = House::new().await;
    let operator = house.acme.key(Role::Operator);
    let finished = format!("/runs/{}/undo", house.acme.runs.finished);
    assert_eq!(house.get(operator, &finished).await.json()["effects"], json!([]));
    let reply = house.post(operator, &finished, &json!({})).await;
    assert_eq!(reply.told(), (409, "RUN_INVALID_TRANSITION".to_owned()));
    let asking = format!("/runs/{}", house.acme.runs.asking);
    assert_eq!(house.get(operator, &format!("{asking}/undo")).await.told(), (409, "RUN_NOT_OVER".to_owned()));
    let reply = house.post(operator, &format!("{asking}/rollback"), &json!({})).await;
    assert_eq!(reply.told(), (409, "RUN_INVALID_TRANSITION".to_owned()), "{}", reply.text());
}

#[tokio::test]
async fn a_run_of_a_workflow_that_nobody_put_to_use_is_not_started() {
    let house = House::new().await;
    let reply = house.post(house.acme.key(Role::Operator), "/runs", &json!({ "workflow": "none" })).await;
    assert_eq!(reply.told(), (404, "NO_WORKFLOW".to_owned()));
    // Nor one that another tenant has.
    let other = json!({ "workflow": "only-umbrella" });
    let other = house.post(house.acme.key(Role::Operator), "/runs", &other).await;
    assert_eq!(other.text().replace("only-umbrella", "none"), reply.text());
}
