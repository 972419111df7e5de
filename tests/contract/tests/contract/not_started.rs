//! Events that started no run: the caller's own tenant gets the reason, other tenants do not.

use api::route_table;
use countersign_contract::{ContractEnv, PathValue, Reply, TestTenant, body_for};
use domain::{Digest, Role, RunId, RunKey, Source};
use engine::InboundEvent;
use serde_json::json;
use store::SqliteStore;

/// Applies a workflow of acme that every webhook triggers, with one run at a time per host.
async fn apply(env: &ContractEnv, name: &str) {
    let source = format!(
        "workflow: {name}\nversion: 1\ntrigger: {{ webhook: {{ when: '${{ trigger.body.host != \"{name}\" }}' }} }}\nconcurrency: '${{ trigger.body.host }}'\n\
         steps:\n  - {{ id: ask, tool: approval.gate, with: {{ message: 'Go on?' }} }}\n"
    );
    let applied = env.post(env.acme.key(Role::Admin), "/workflows", &json!({ "source": source })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
}

/// Accepts a webhook event for acme. Returns the run that it would start.
async fn accept(env: &ContractEnv, key: &str) -> RunKey {
    let event = InboundEvent {
        tenant: env.acme.tenant.clone(),
        key: key.parse().unwrap(),
        source: Source::Webhook,
        topic: None,
        record: None,
        proof: Digest::of_bytes(key.as_bytes()),
        dedupe_key: None,
        body: json!({ "body": { "host": "db1" } }),
        start_request: None,
    };
    env.engine.admission().accept(event).await.unwrap().run
}

/// Accepts an event and tries to start its run.
async fn accept_event(env: &ContractEnv, key: &str) -> RunId {
    let run = accept(env, key).await;
    env.engine.admission().process_entry(&run).await.unwrap();
    run.run
}

async fn show(env: &ContractEnv, tenant: &TestTenant, run: &RunId) -> Reply {
    env.get(tenant.key(Role::Viewer), &format!("/runs/{run}")).await
}

const PENDING: &str = "RUN_PENDING";
const NOT_STARTED: &str = "RUN_NOT_STARTED";

/// Checks the error code of the run. Returns the detail.
async fn detail(env: &ContractEnv, run: &RunId, code: &str) -> String {
    let reply = show(env, &env.acme, run).await;
    assert_eq!(reply.status_and_code(), (404, code.to_owned()), "{}", reply.text());
    assert_ne!(reply.json()["remedy"], json!(null), "{}", reply.text());
    reply.json()["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn not_started_run_gives_the_reason() {
    let env = ContractEnv::new().await;
    let waits = detail(&env, &accept(&env, "waits").await.run, PENDING).await;
    assert!(waits.contains("waits for a worker"), "{waits}");
    let unwanted = detail(&env, &accept_event(&env, "unwanted").await, NOT_STARTED).await;
    assert!(unwanted.contains("no workflow matched the event"), "{unwanted}");

    apply(&env, "first").await;
    let started = accept_event(&env, "started").await;
    assert_eq!(show(&env, &env.acme, &started).await.status, 200);
    let joined = detail(&env, &accept_event(&env, "joined").await, NOT_STARTED).await;
    assert!(joined.contains(started.as_str()), "{joined}");

    apply(&env, "second").await;
    let refused = detail(&env, &accept_event(&env, "refused").await, NOT_STARTED).await;
    assert!(refused.contains("workflows first and second both match it"), "{refused}");
}

#[tokio::test]
async fn every_route_reports_a_not_started_run() {
    let env = ContractEnv::new().await;
    let run = accept_event(&env, "unwanted").await;
    let expected = detail(&env, &run, NOT_STARTED).await;
    let mut tenant = env.acme.clone();
    let runs = &mut tenant.runs;
    for any in [&mut runs.finished, &mut runs.asking, &mut runs.waiting, &mut runs.paused] {
        *any = run.clone();
    }
    for row in route_table::<SqliteStore>().into_iter().filter(|row| row.ids().any(|id| id == "run")) {
        let path = PathValue::Own.in_path(row.path, row.name, &tenant);
        let key = tenant.key(Role::Admin);
        let reply = env.json(&row.method, key, &path, &body_for(row.name).unwrap_or_default()).await;
        assert_eq!(reply.status_and_code(), (404, NOT_STARTED.to_owned()), "{}: {}", row.name, reply.text());
        assert_eq!(reply.json()["detail"], json!(expected), "{}", row.name);
    }
}

#[tokio::test]
async fn foreign_event_looks_like_an_unknown_run() {
    let env = ContractEnv::new().await;
    let run = accept_event(&env, "unwanted").await;
    let never = "run-00000000000000000000000000000000".parse().unwrap();
    let unknown = show(&env, &env.umbrella, &never).await;
    assert_eq!(show(&env, &env.umbrella, &run).await, unknown);
    assert_eq!(show(&env, &env.acme, &never).await, unknown);
}
