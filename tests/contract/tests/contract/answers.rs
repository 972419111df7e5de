//! People answer: once, for what they saw, and nobody for themselves.

use axum::http::Method;
use countersign_contract::House;
use domain::Role;
use serde_json::{Value, json};

/// B1: a second yes changes nothing, and a request that is decided stays so.
#[tokio::test]
async fn a_yes_counts_once() {
    let house = House::new().await;
    let (acme, key) = (&house.acme, house.acme.key(Role::Approver));
    let path = format!("/approvals/{}", acme.runs.approval);
    let first = house.post(key, &format!("{path}/approve"), &json!({ "reason": "fine" })).await;
    assert_eq!(first.json()["outcome"], "decided", "{}", first.text());
    let asked = house.get(key, &path).await;
    let again = house.post(key, &format!("{path}/approve"), &json!({ "reason": "fine" })).await;
    assert_eq!((again.status, &again.json()["outcome"]), (200, &json!("duplicate")));
    assert_eq!(house.get(key, &path).await, asked);
    let late = house.post(key, &format!("{path}/reject"), &json!({ "reason": "no" })).await;
    assert_eq!(late.told(), (409, "RUN_INVALID_TRANSITION".to_owned()));
    // The credential is kept with the vote, and never shown as more than its name.
    let vote = house.handle(acme, "anna").approval(&acme.runs.approval.parse().unwrap()).await.unwrap().votes;
    let named = format!("key:{}", acme.key_id(Role::Approver));
    assert_eq!(vote[0].through, domain::Channel::Api { credential: named });
}

#[tokio::test]
async fn an_answer_to_something_else_does_not_count() {
    let house = House::new().await;
    let key = house.acme.key(Role::Approver);
    let path = format!("/approvals/{}", house.acme.runs.approval);
    let body = json!({ "subject": "0".repeat(64) });
    let reply = house.post(key, &format!("{path}/approve"), &body).await;
    assert_eq!(reply.told(), (409, "RUN_INVALID_TRANSITION".to_owned()));
    let seen = house.get(key, &path).await.json()["subject"].clone();
    let reply = house.post(key, &format!("{path}/approve"), &json!({ "subject": seen })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[tokio::test]
async fn nobody_answers_for_their_own_run() {
    let house = House::new().await;
    // Adam may do everything, and so starts the run himself.
    let key = house.acme.key(Role::Admin);
    let started = house.post(key, "/runs", &json!({ "workflow": "asks" })).await.json();
    let run: domain::RunId = started["run"].as_str().unwrap().parse().unwrap();
    house.advance(&house.acme, &run).await;
    let open = house.get(key, "/approvals").await.json();
    let own =
        open["approvals"].as_array().unwrap().iter().find(|asked| asked["run"] == started["run"]).unwrap();
    let path = format!("/approvals/{}/approve", own["approval"].as_str().unwrap());
    assert_eq!(house.post(key, &path, &json!({})).await.told(), (403, "APPROVAL_REFUSED".to_owned()));
    // It is not among what he is asked, and is among what Anna is.
    let mine = async |role| house.get(house.acme.key(role), "/approvals?mine=true").await.text();
    assert!(!mine(Role::Admin).await.contains(run.as_str()));
    assert!(mine(Role::Approver).await.contains(run.as_str()));
}

/// Whoever goes by a second name could approve what they asked for under the first.
#[tokio::test]
async fn nobody_answers_whom_the_tenant_does_not_know() {
    let house = House::new().await;
    let (admin, key) = (house.acme.key(Role::Admin), house.acme.key(Role::Approver));
    let settle = async |people: Value, revision: Value| {
        let caps = json!({ "max_writes_per_run": 3 });
        let body = json!({ "people": people, "groups": {}, "caps": caps, "revision": revision });
        let reply = house.json(&Method::PUT, admin, "/tenant", &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    settle(json!({ "grace": {}, "Anna": {} }), json!(null)).await;
    let path = format!("/approvals/{}/approve", house.acme.runs.approval);
    let refused = house.post(key, &path, &json!({})).await;
    assert_eq!(refused.told(), (403, "APPROVAL_REFUSED".to_owned()));
    assert!(refused.text().contains("not among the people"), "{}", refused.text());
    assert_eq!(house.get(key, "/approvals?mine=true").await.json()["approvals"], json!([]));

    settle(json!({ "grace": {}, "anna": {} }), json!(0)).await;
    assert_eq!(house.post(key, &path, &json!({})).await.status, 200);
}

/// C10: a no can pause the run, until an operator says how it goes on.
#[tokio::test]
async fn after_a_no_an_operator_says_how_the_run_goes_on() {
    for (verb, status) in [("retry", "waiting_approval"), ("cancel", "canceled")] {
        let house = House::new().await;
        let (acme, operator) = (&house.acme, house.acme.key(Role::Operator));
        let path = format!("/approvals/{}/reject", acme.runs.approval);
        let reply = house.post(acme.key(Role::Approver), &path, &json!({ "reason": "not today" })).await;
        assert_eq!(reply.json()["status"], "rejected", "{}", reply.text());
        let run = format!("/runs/{}", acme.runs.asking);
        let shown = house.get(operator, &run).await.json();
        assert_eq!(shown["status"], "paused");
        assert!(shown["waits"]["why"].as_str().unwrap().contains("not today"));
        let moved = house.post(operator, &format!("{run}/{verb}"), &json!({ "reason": "so be it" })).await;
        assert_eq!(moved.json()["status"], "done", "{}", moved.text());
        house.advance(acme, &acme.runs.asking).await;
        assert_eq!(house.get(operator, &run).await.json()["status"], status, "{verb}");
    }
}
