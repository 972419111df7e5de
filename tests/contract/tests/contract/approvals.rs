//! Decisions of approvers.

use axum::http::Method;
use countersign_contract::ContractEnv;
use domain::Role;
use serde_json::{Value, json};

/// A second decision changes nothing.
#[tokio::test]
async fn decision_counts_once() {
    let env = ContractEnv::new().await;
    let (acme, key) = (&env.acme, env.acme.key(Role::Approver));
    let path = format!("/approvals/{}", acme.runs.approval);
    let first = env.post(key, &format!("{path}/approve"), &json!({ "reason": "fine" })).await;
    assert_eq!(first.json()["outcome"], "decided", "{}", first.text());
    let decided = env.get(key, &path).await;
    let again = env.post(key, &format!("{path}/approve"), &json!({ "reason": "fine" })).await;
    assert_eq!((again.status, &again.json()["outcome"]), (200, &json!("duplicate")));
    assert_eq!(env.get(key, &path).await, decided);
    let late = env.post(key, &format!("{path}/reject"), &json!({ "reason": "no" })).await;
    assert_eq!(late.status_and_code(), (409, "RUN_INVALID_TRANSITION".to_owned()));
    // The vote records the name of the credential, not its secret.
    let vote = env.handle(acme, "anna").approval(&acme.runs.approval.parse().unwrap()).await.unwrap().votes;
    let named = format!("key:{}", acme.key_id(Role::Approver));
    assert_eq!(vote[0].through, domain::Channel::Api { credential: named });
}

#[tokio::test]
async fn approval_of_another_subject_is_refused() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Approver);
    let path = format!("/approvals/{}", env.acme.runs.approval);
    let body = json!({ "subject_hash": "0".repeat(64) });
    let reply = env.post(key, &format!("{path}/approve"), &body).await;
    assert_eq!(reply.status_and_code(), (409, "RUN_INVALID_TRANSITION".to_owned()));
    let seen = env.get(key, &path).await.json()["subject_hash"].clone();
    let reply = env.post(key, &format!("{path}/approve"), &json!({ "subject_hash": seen })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

#[tokio::test]
async fn requester_cannot_decide_own_run() {
    let env = ContractEnv::new().await;
    // The admin starts the run.
    let key = env.acme.key(Role::Admin);
    let started = env.post(key, "/runs", &json!({ "workflow": "asks" })).await.json();
    let run: domain::RunId = started["run"].as_str().unwrap().parse().unwrap();
    env.advance(&env.acme, &run).await;
    let open = env.get(key, "/approvals").await.json();
    let own = open["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .find(|approval| approval["run"] == started["run"])
        .unwrap();
    let path = format!("/approvals/{}/approve", own["approval"].as_str().unwrap());
    assert_eq!(
        env.post(key, &path, &json!({})).await.status_and_code(),
        (403, "APPROVAL_REFUSED".to_owned())
    );
    // The run is in the list of the approver, but not in the list of its requester.
    let mine = async |role| env.get(env.acme.key(role), "/approvals?mine=true").await.text();
    assert!(!mine(Role::Admin).await.contains(run.as_str()));
    assert!(mine(Role::Approver).await.contains(run.as_str()));
}

/// Otherwise a user with a second name could approve their own run.
#[tokio::test]
async fn unknown_user_cannot_decide() {
    let env = ContractEnv::new().await;
    let (admin, key) = (env.acme.key(Role::Admin), env.acme.key(Role::Approver));
    let settle = async |people: Value, revision: Value| {
        let caps = json!({ "max_writes_per_run": 3 });
        let body = json!({ "people": people, "groups": {}, "caps": caps, "revision": revision });
        let reply = env.json(&Method::PUT, admin, "/tenant", &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    };
    settle(json!({ "adam": {}, "hanna": {} }), json!(null)).await;
    let path = format!("/approvals/{}/approve", env.acme.runs.approval);
    let refused = env.post(key, &path, &json!({})).await;
    assert_eq!(refused.status_and_code(), (403, "FORBIDDEN".to_owned()));
    assert!(refused.text().contains("not in the tenant's `people`"), "{}", refused.text());
    assert_eq!(env.get(key, "/approvals?mine=true").await.json()["approvals"], json!([]));

    settle(json!({ "adam": {}, "anna": {} }), json!(0)).await;
    assert_eq!(env.post(key, &path, &json!({})).await.status, 200);
}

/// A rejection can pause the run until an operator continues it.
#[tokio::test]
async fn operator_continues_a_rejected_run() {
    for (verb, status) in [("retry", "waiting_approval"), ("cancel", "canceled")] {
        let env = ContractEnv::new().await;
        let (acme, operator) = (&env.acme, env.acme.key(Role::Operator));
        let path = format!("/approvals/{}/reject", acme.runs.approval);
        let reply = env.post(acme.key(Role::Approver), &path, &json!({ "reason": "not today" })).await;
        assert_eq!(reply.json()["status"], "rejected", "{}", reply.text());
        let run = format!("/runs/{}", acme.runs.asking);
        let shown = env.get(operator, &run).await.json();
        assert_eq!(shown["status"], "paused");
        assert!(shown["waiting"]["reason"].as_str().unwrap().contains("not today"));
        let moved = env.post(operator, &format!("{run}/{verb}"), &json!({ "reason": "so be it" })).await;
        assert_eq!(moved.json()["result"], "done", "{}", moved.text());
        env.advance(acme, &acme.runs.asking).await;
        assert_eq!(env.get(operator, &run).await.json()["status"], status, "{verb}");
    }
}

#[tokio::test]
async fn missed_sla_is_in_the_approval() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Admin);
    let started = env.post(key, "/runs", &json!({ "workflow": "asks" })).await.json();
    let run: domain::RunId = started["run"].as_str().unwrap().parse().unwrap();
    env.advance(&env.acme, &run).await;
    let escalated_at = async || {
        let open = env.get(key, "/approvals").await.json();
        let approvals = open["approvals"].as_array().unwrap().clone();
        approvals.into_iter().find(|approval| approval["run"] == run.as_str()).unwrap()["escalated_at"]
            .clone()
    };
    assert_eq!(escalated_at().await, Value::Null);
    env.clock.advance(domain::Millis::hours(1));
    // The reminder, then the escalation.
    env.advance(&env.acme, &run).await;
    env.advance(&env.acme, &run).await;
    assert!(escalated_at().await.is_string());
}
