//! The named cases of *API and tenancy*; `other_tenant_run_id` is in `matrix`, those about tokens in `oidc`.

use axum::body::Body;
use axum::http::{Method, Request};
use countersign_contract::{ContractEnv, Reply};
use domain::Role;
use serde_json::{Value, json};

pub(crate) async fn start(env: &ContractEnv, key: &str, name: &str, body: &Value) -> Reply {
    let request = Request::post("/api/v1/runs")
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .header("idempotency-key", name);
    env.send(request.body(Body::from(body.to_string())).unwrap()).await
}

fn plain(input: &Value) -> Value {
    json!({ "workflow": "plain", "input": input })
}

#[tokio::test]
async fn api_key_revoked() {
    let env = ContractEnv::new().await;
    let (admin, viewer) = (env.acme.key(Role::Admin), env.acme.key(Role::Viewer));
    assert_eq!(env.get(viewer, "/me").await.status, 200);
    let path = format!("/keys/{}", env.acme.key_id(Role::Viewer));
    let first = env.json(&Method::DELETE, admin, &path, &json!({})).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(env.get(viewer, "/me").await.status_and_code(), (401, "UNAUTHENTICATED".to_owned()));
    // A second revocation changes nothing.
    let second = env.json(&Method::DELETE, admin, &path, &json!({})).await;
    assert_eq!(second.json()["revoked_at"], first.json()["revoked_at"]);
    // An admin does not lock themselves out.
    let own = format!("/keys/{}", env.acme.key_id(Role::Admin));
    let reply = env.json(&Method::DELETE, admin, &own, &json!({})).await;
    assert_eq!(reply.status_and_code(), (409, "KEY_IN_USE".to_owned()));
    let unknown = "csk_acme_dead_0000000000000000000000000000000000000000000000000000000000000000";
    assert_eq!(env.get(viewer, "/me").await, env.get(unknown, "/me").await);
}

#[tokio::test]
async fn api_key_in_query() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Viewer);
    for name in ["api_key", "token", "access_token", "API_KEY", "api%5Fkey"] {
        let reply = env.get("", &format!("/me?{name}={key}")).await;
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{name}");
        assert!(!reply.text().contains(key));
        // Even with a valid header.
        assert_eq!(env.get(key, &format!("/me?{name}={key}")).await.status, 400, "{name}");
    }
}

#[tokio::test]
async fn list_cursor_from_other_tenant() {
    let env = ContractEnv::new().await;
    let (acme, umbrella) = (env.acme.key(Role::Viewer), env.umbrella.key(Role::Viewer));
    let page = env.get(acme, "/runs?limit=1").await.json();
    let cursor = page["next"].as_str().unwrap();
    let second = env.get(acme, &format!("/runs?limit=1&cursor={cursor}")).await;
    assert_ne!(second.json()["runs"][0]["run"], page["runs"][0]["run"]);
    for (key, path) in [
        (umbrella, format!("/runs?cursor={cursor}")),
        (acme, format!("/runs?status=queued&cursor={cursor}")),
        (acme, format!("/approvals?cursor={cursor}")),
        (acme, "/runs?cursor=made-up".to_owned()),
    ] {
        let reply = env.get(key, &path).await;
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{path}");
        assert!(reply.json()["remedy"].as_str().unwrap().contains("next"));
    }
}

/// One key identifies one run permanently.
#[tokio::test]
async fn idempotency_key_same_other_body() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Operator);
    let first = start(&env, key, "order-7", &plain(&json!({ "n": 1 }))).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let again = start(&env, key, "order-7", &plain(&json!({ "n": 1 }))).await;
    assert_eq!((again.status, &again.bytes), (200, &first.bytes));
    assert_eq!(again.header("location"), first.header("location"));
    let about = json!({ "workflow": "plain", "input": { "n": 1 }, "record": "servicenow:incident:9d38" });
    for other in [plain(&json!({ "n": 2 })), json!({ "workflow": "asks", "input": { "n": 1 } }), about] {
        let reply = start(&env, key, "order-7", &other).await;
        assert_eq!(reply.status_and_code(), (409, "IDEMPOTENCY_CONFLICT".to_owned()), "{other}");
    }
    // With a later version of the workflow it is still the same request.
    let later = "workflow: plain\nversion: 2\nsteps:\n  - { id: a, tool: transform, with: { value: 1 } }\n";
    let applied = env.post(env.acme.key(Role::Admin), "/workflows", &json!({ "source": later })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    assert_eq!(start(&env, key, "order-7", &plain(&json!({ "n": 1 }))).await.bytes, first.bytes);
}

#[tokio::test]
async fn idempotency_key_reuse_other_tenant() {
    let env = ContractEnv::new().await;
    let runs = [
        start(&env, env.acme.key(Role::Operator), "order-7", &plain(&json!({ "n": 1 }))).await,
        start(&env, env.umbrella.key(Role::Operator), "order-7", &plain(&json!({ "n": 2 }))).await,
        // The same idempotency key with another API key is another request.
        start(&env, env.acme.key(Role::Admin), "order-7", &plain(&json!({ "n": 3 }))).await,
    ];
    let mut names: Vec<String> = runs.iter().map(|reply| reply.json()["run"].to_string()).collect();
    assert!(runs.iter().all(|reply| reply.status == 201));
    names.dedup();
    assert_eq!(names.len(), 3);
}

#[tokio::test]
async fn mass_assignment_status_field() {
    let env = ContractEnv::new().await;
    let (operator, admin) = (env.acme.key(Role::Operator), env.acme.key(Role::Admin));
    let settled = json!({
        "people": {}, "groups": {}, "caps": { "max_writes_per_run": 1 }, "revision": null, "policy": null
    });
    for (method, key, path, body) in [
        ("POST", operator, "/runs".to_owned(), json!({ "workflow": "plain", "status": "succeeded" })),
        ("POST", operator, "/runs".to_owned(), json!({ "workflow": "plain", "tenant": "umbrella" })),
        ("POST", operator, format!("/runs/{}/cancel", env.acme.runs.asking), json!({ "status": "canceled" })),
        (
            "POST",
            env.acme.key(Role::Approver),
            format!("/approvals/{}/approve", env.acme.runs.approval),
            json!({ "reason": "", "person": "grace" }),
        ),
        (
            "POST",
            admin,
            "/keys".to_owned(),
            json!({ "person": "a", "roles": ["viewer"], "tenant": "umbrella" }),
        ),
        ("PUT", admin, "/tenant".to_owned(), settled),
    ] {
        let reply = env.json(&method.parse().unwrap(), key, &path, &body).await;
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{path} {body}");
        assert!(reply.text().contains("unknown field"), "{}", reply.text());
    }
}

#[tokio::test]
async fn negative_page_size() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Viewer);
    let events = format!("/runs/{}/events", env.acme.runs.finished);
    for path in ["/runs", "/approvals", &events] {
        for limit in ["-1", "0", "201", "99999999999999999999", "1.5", "", "many", "%00"] {
            let reply = env.get(key, &format!("{path}?limit={limit}")).await;
            assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{path} {limit}");
            assert!(reply.text().contains("from 1 to 200"), "{}", reply.text());
        }
    }
}

#[tokio::test]
async fn idempotency_key_is_visible_ascii() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Operator);
    for name in ["", "a b", &"x".repeat(256)] {
        let reply = start(&env, key, name, &plain(&json!({}))).await;
        assert_eq!(reply.status_and_code(), (400, "BAD_REQUEST".to_owned()), "{name:?}");
    }
    let twice = Request::post("/api/v1/runs")
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    let reply = env.send(twice.body(Body::from(plain(&json!({})).to_string())).unwrap()).await;
    assert_eq!(reply.status, 400);
    // Without a key, every request starts a run.
    let (one, two) =
        (env.post(key, "/runs", &plain(&json!({}))).await, env.post(key, "/runs", &plain(&json!({}))).await);
    assert_eq!((one.status, two.status), (201, 201));
    assert_ne!(one.bytes, two.bytes);
}
