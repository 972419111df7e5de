//! Concurrency keys: one run at a time per key.

use countersign_contract::ContractEnv;
use domain::{Role, RunKey};
use serde_json::{Value, json};

use crate::threats::start;

/// An environment with a workflow that has one run at a time per host.
async fn env(on_conflict: &str) -> ContractEnv {
    let env = ContractEnv::new().await;
    let source = format!(
        "workflow: restart\nversion: 2\nconcurrency: {{ key: '${{ trigger.host }}', on_conflict: {on_conflict} }}\n\
         steps:\n  - {{ id: go, tool: approval.gate, with: {{ message: Go? }} }}\n"
    );
    let applied = env.post(env.acme.key(Role::Admin), "/workflows", &json!({ "source": source })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    env
}

fn input_for(host: &str) -> Value {
    json!({ "workflow": "restart", "input": { "host": host } })
}

/// Cancels a run.
async fn end(env: &ContractEnv, run: &Value) {
    let path = format!("/runs/{}/cancel", run.as_str().unwrap());
    let ended = env.post(env.acme.key(Role::Operator), &path, &json!({ "reason": "enough" })).await;
    assert_eq!(ended.status, 200, "{}", ended.text());
}

#[tokio::test]
async fn joined_request_keeps_its_response() {
    let env = env("join").await;
    let key = env.acme.key(Role::Operator);
    let first = start(&env, key, "a", &input_for("db1")).await;
    let joined = start(&env, key, "b", &input_for("db1")).await;
    assert_eq!((first.status, joined.status), (201, 200), "{}", joined.text());
    assert_eq!(joined.json()["run"], first.json()["run"]);
    assert_eq!(
        start(&env, key, "b", &input_for("db2")).await.status_and_code(),
        (409, "IDEMPOTENCY_CONFLICT".to_owned())
    );

    end(&env, &first.json()["run"]).await;
    let again = start(&env, key, "b", &input_for("db1")).await;
    assert_eq!((again.status, again.json()["run"].clone()), (200, first.json()["run"].clone()));
    assert_eq!(start(&env, key, "c", &input_for("db1")).await.status, 201, "another request is another run");
}

#[tokio::test]
async fn waiting_request_keeps_its_key() {
    let env = env("queue").await;
    let key = env.acme.key(Role::Operator);
    let first = start(&env, key, "a", &input_for("db1")).await;
    let waits = start(&env, key, "b", &input_for("db1")).await;
    assert_eq!(waits.status, 202, "{}", waits.text());
    assert_eq!(
        start(&env, key, "b", &input_for("db2")).await.status_and_code(),
        (409, "IDEMPOTENCY_CONFLICT".to_owned())
    );
    assert_eq!(start(&env, key, "b", &input_for("db1")).await.status, 202);

    // The request starts when the run that it waits for ends, and does not wait for itself.
    let run = waits.json()["run"].as_str().unwrap().parse().unwrap();
    env.engine.admission().process_entry(&RunKey { tenant: env.acme.tenant.clone(), run }).await.unwrap();
    end(&env, &first.json()["run"]).await;
    let started = start(&env, key, "b", &input_for("db1")).await;
    assert_eq!((started.status, &started.json()["run"]), (201, &waits.json()["run"]), "{}", started.text());
}

#[tokio::test]
async fn concurrency_errors_have_a_remedy() {
    let env = env("reject").await;
    let key = env.acme.key(Role::Operator);
    let first = start(&env, key, "a", &input_for("db1")).await;
    for (name, body, code, helps) in [
        ("b", input_for("db1"), (409, "CONCURRENCY_CONFLICT"), "after that run has finished"),
        (
            "c",
            json!({ "workflow": "restart", "input": {} }),
            (400, "CONCURRENCY_KEY_INVALID"),
            "`concurrency` key",
        ),
    ] {
        let refused = start(&env, key, name, &body).await;
        assert_eq!(refused.status_and_code(), (code.0, code.1.to_owned()), "{}", refused.text());
        assert!(refused.json()["remedy"].as_str().unwrap().contains(helps), "{}", refused.text());
    }
    end(&env, &first.json()["run"]).await;
    assert_eq!(
        start(&env, key, "b", &input_for("db1")).await.status,
        201,
        "a refused request may be sent again"
    );
}

#[tokio::test]
async fn older_version_is_refused_with_a_remedy() {
    let env = env("join").await;
    let older = "workflow: restart\nversion: 1\nsteps:\n  - { id: a, tool: transform }\n";
    let refused = env.post(env.acme.key(Role::Admin), "/workflows", &json!({ "source": older })).await;
    assert_eq!(refused.status_and_code(), (409, "WORKFLOW_NOT_NEWER".to_owned()), "{}", refused.text());
    assert!(refused.json()["remedy"].as_str().unwrap().contains("`version`"));
}
