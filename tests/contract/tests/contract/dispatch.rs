//! The dispatch switch of a tenant, and backout.

use countersign_contract::ContractEnv;
use domain::Role;
use serde_json::{Value, json};

#[tokio::test]
async fn dispatch_stops_for_one_tenant() {
    let env = ContractEnv::new().await;
    let (admin, viewer) = (env.acme.key(Role::Admin), env.acme.key(Role::Viewer));
    let on = json!({ "stopped": false, "all_tenants": null, "tenant": null });
    assert_eq!(env.get(viewer, "/dispatch").await.json(), on);
    let stopped = env.post(admin, "/dispatch/stop", &json!({ "reason": "fire" })).await.json();
    assert_eq!((&stopped["by"], &stopped["reason"]), (&json!("adam"), &json!("fire")));
    let again = env.post(admin, "/dispatch/stop", &json!({ "reason": "flood" })).await.json();
    assert_eq!(again, stopped, "the first stop is kept");
    assert_eq!(env.get(viewer, "/dispatch").await.json()["tenant"], stopped);
    assert_eq!(env.get(viewer, "/tenant").await.json()["stopped"], stopped);
    assert_eq!(env.get(env.umbrella.key(Role::Viewer), "/dispatch").await.json(), on);

    let started = env.post(env.acme.key(Role::Operator), "/runs", &json!({ "workflow": "plain" })).await;
    let run = started.json()["run"].as_str().unwrap().parse().unwrap();
    env.advance(&env.acme, &run).await;
    let status = async || env.get(viewer, &format!("/runs/{run}")).await.json()["status"].clone();
    assert_eq!(status().await, "queued");
    let started = env.post(admin, "/dispatch/start", &json!({})).await.json();
    assert_eq!(started, json!({ "enqueued": 1, "all_tenants": null, "next": null }));
    env.advance(&env.acme, &run).await;
    assert_eq!(status().await, "succeeded");
    let no_reason = env.post(admin, "/dispatch/stop", &json!({})).await;
    assert_eq!(no_reason.status_and_code(), (400, "BAD_REQUEST".to_owned()));
}

#[tokio::test]
async fn backout_affects_one_tenant() {
    let env = ContractEnv::new().await;
    let (admin, other) = (env.acme.key(Role::Admin), env.umbrella.key(Role::Viewer));
    let before = env.get(other, "/runs").await;
    let counted = env.post(admin, "/backout", &json!({ "reason": "wrong", "dry_run": true })).await.json();
    assert_eq!((&counted["unfinished"], &counted["done"]), (&json!(3), &json!(false)));
    assert_eq!(env.get(admin, "/dispatch").await.json()["stopped"], false);

    let ended = env.post(admin, "/backout", &json!({ "reason": "wrong" })).await.json();
    assert_eq!((&ended["canceled"], &ended["done"]), (&json!(3), &json!(true)), "{ended}");
    let again = env.post(admin, "/backout", &json!({ "reason": "wrong" })).await.json();
    assert_eq!((&again["canceled"], &again["done"]), (&json!(0), &json!(true)), "{again}");
    assert_eq!(env.get(admin, "/runs?status=canceled").await.json()["runs"].as_array().unwrap().len(), 3);
    assert_ne!(env.get(admin, "/dispatch").await.json()["tenant"]["backout_started_at"], Value::Null);
    assert_eq!(env.get(other, "/runs").await, before);
}

/// More runs than one request handles.
const MANY: u64 = 230;

/// An environment in which acme has many queued runs.
async fn crowded() -> ContractEnv {
    let env = ContractEnv::new().await;
    for _ in 0..MANY {
        env.post(env.acme.key(Role::Operator), "/runs", &json!({ "workflow": "plain" })).await;
    }
    env
}

/// Sends requests to `path` until the operation is complete. Returns all responses.
async fn to_the_end(env: &ContractEnv, path: &str, body: &Value) -> Vec<Value> {
    let admin = env.acme.key(Role::Admin);
    let mut responses = vec![env.post(admin, path, body).await.json()];
    while let Some(next) = responses.last().and_then(|last| last["next"].as_str()) {
        let response = env.post(admin, &format!("{path}?cursor={next}"), body).await.json();
        responses.push(response);
    }
    responses
}

#[tokio::test]
async fn large_backout_continues_with_a_cursor() {
    let env = crowded().await;
    let counted = to_the_end(&env, "/backout", &json!({ "reason": "wrong", "dry_run": true })).await;
    assert!(counted.len() > 1 && counted[0]["unfinished"].as_u64().unwrap() < MANY, "{counted:?}");
    assert_eq!(counted.last().unwrap()["unfinished"], MANY + 3);

    let responses = to_the_end(&env, "/backout", &json!({ "reason": "wrong" })).await;
    let ended: Vec<u64> = responses.iter().map(|responses| responses["canceled"].as_u64().unwrap()).collect();
    assert!(ended.is_sorted() && (1..MANY).contains(&ended[0]), "{ended:?}");
    let (last, before) = responses.split_last().unwrap();
    assert_eq!((&last["canceled"], &last["done"]), (&json!(MANY + 3), &json!(true)));
    assert!(before.iter().all(|responses| responses["done"] == false), "{before:?}");
}

#[tokio::test]
async fn large_start_continues_with_a_cursor() {
    let env = crowded().await;
    env.post(env.acme.key(Role::Admin), "/dispatch/stop", &json!({ "reason": "fire" })).await;
    let responses = to_the_end(&env, "/dispatch/start", &json!({})).await;
    assert!(responses.len() > 1 && responses[0]["enqueued"].as_u64().unwrap() < MANY, "{responses:?}");
    assert_eq!(responses.last().unwrap()["enqueued"], MANY);
}

#[tokio::test]
async fn foreign_or_outdated_cursor_is_refused() {
    let env = crowded().await;
    let (admin, wrong) = (env.acme.key(Role::Admin), json!({ "reason": "wrong" }));
    let first = env.post(admin, "/backout", &wrong).await.json();
    let on = format!("/backout?cursor={}", first["next"].as_str().unwrap());
    let refused = |reply: countersign_contract::Reply| {
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()));
    };
    refused(env.post(env.umbrella.key(Role::Admin), &on, &wrong).await);
    refused(env.post(admin, &on, &json!({ "reason": "wrong", "dry_run": true })).await);
    refused(env.post(admin, &on.replace("/backout", "/dispatch/start"), &json!({})).await);
    refused(env.post(admin, "/backout?cursor=made-up", &wrong).await);

    env.post(admin, "/dispatch/start", &json!({})).await;
    let late = env.post(admin, &on, &wrong).await;
    assert!(late.text().contains("dispatch was started during this backout"), "{}", late.text());
    refused(late);
}

#[tokio::test]
async fn versions_are_listed_newest_first() {
    let env = ContractEnv::new().await;
    let (admin, viewer) = (env.acme.key(Role::Admin), env.acme.key(Role::Viewer));
    let source = |version: u32| {
        let steps = "steps:\n  - { id: shape, tool: transform, with: { value: done } }\n";
        json!({ "source": format!("workflow: plain\nversion: {version}\n{steps}") })
    };
    env.post(admin, "/workflows", &source(3)).await;
    let listed = env.get(viewer, "/workflows/plain/versions").await.json();
    let versions = listed["versions"].as_array().unwrap().iter();
    let responses: Vec<_> = versions.map(|of| (of["version"].clone(), of["applied_by"].clone())).collect();
    assert_eq!(responses, [(json!(3), json!("adam")), (json!(1), json!("adam"))]);
}
