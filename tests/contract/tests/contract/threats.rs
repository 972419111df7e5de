//! The named cases of *API and tenancy*; `other_tenant_run_id` is in `matrix`, those about tokens in `oidc`.

use axum::body::Body;
use axum::http::{Method, Request};
use countersign_contract::{House, Reply};
use domain::Role;
use serde_json::{Value, json};

pub(crate) async fn start(house: &House, key: &str, name: &str, body: &Value) -> Reply {
    let request = Request::post("/api/v1/runs")
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .header("idempotency-key", name);
    house.send(request.body(Body::from(body.to_string())).unwrap()).await
}

fn plain(input: &Value) -> Value {
    json!({ "workflow": "plain", "input": input })
}

#[tokio::test]
async fn api_key_revoked() {
    let house = House::new().await;
    let (admin, viewer) = (house.acme.key(Role::Admin), house.acme.key(Role::Viewer));
    assert_eq!(house.get(viewer, "/me").await.status, 200);
    let path = format!("/keys/{}", house.acme.key_id(Role::Viewer));
    let first = house.json(&Method::DELETE, admin, &path, &json!({})).await;
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(house.get(viewer, "/me").await.told(), (401, "UNAUTHENTICATED".to_owned()));
    // Done twice, the first time counts.
    let second = house.json(&Method::DELETE, admin, &path, &json!({})).await;
    assert_eq!(second.json()["revoked_at"], first.json()["revoked_at"]);
    // Nobody locks themselves out by mistake.
    let own = format!("/keys/{}", house.acme.key_id(Role::Admin));
    let reply = house.json(&Method::DELETE, admin, &own, &json!({})).await;
    assert_eq!(reply.told(), (409, "KEY_IN_USE".to_owned()));
    let unknown = "csk_acme_dead_0000000000000000000000000000000000000000000000000000000000000000";
    assert_eq!(house.get(viewer, "/me").await, house.get(unknown, "/me").await);
}

#[tokio::test]
async fn api_key_in_query() {
    let house = House::new().await;
    let key = house.acme.key(Role::Viewer);
    for name in ["api_key", "token", "access_token", "API_KEY", "api%5Fkey"] {
        let reply = house.get("", &format!("/me?{name}={key}")).await;
        assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()), "{name}");
        assert!(!reply.text().contains(key));
        // Not even beside a header that would do.
        assert_eq!(house.get(key, &format!("/me?{name}={key}")).await.status, 400, "{name}");
    }
}

#[tokio::test]
async fn list_cursor_from_other_tenant() {
    let house = House::new().await;
    let (acme, umbrella) = (house.acme.key(Role::Viewer), house.umbrella.key(Role::Viewer));
    let page = house.get(acme, "/runs?limit=1").await.json();
    let cursor = page["next"].as_str().unwrap();
    let second = house.get(acme, &format!("/runs?limit=1&cursor={cursor}")).await;
    assert_ne!(second.json()["runs"][0]["run"], page["runs"][0]["run"]);
    for (key, path) in [
        (umbrella, format!("/runs?cursor={cursor}")),
        (acme, format!("/runs?status=queued&cursor={cursor}")),
        (acme, format!("/approvals?cursor={cursor}")),
        (acme, "/runs?cursor=made-up".to_owned()),
    ] {
        let reply = house.get(key, &path).await;
        assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()), "{path}");
        assert!(reply.json()["remedy"].as_str().unwrap().contains("next"));
    }
}

/// B6: one key, one run, for ever.
#[tokio::test]
async fn idempotency_key_same_other_body() {
    let house = House::new().await;
    let key = house.acme.key(Role::Operator);
    let first = start(&house, key, "order-7", &plain(&json!({ "n": 1 }))).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let again = start(&house, key, "order-7", &plain(&json!({ "n": 1 }))).await;
    assert_eq!((again.status, &again.bytes), (200, &first.bytes));
    assert_eq!(again.header("location"), first.header("location"));
    let about = json!({ "workflow": "plain", "input": { "n": 1 }, "record": "servicenow:incident:9d38" });
    for other in [plain(&json!({ "n": 2 })), json!({ "workflow": "asks", "input": { "n": 1 } }), about] {
        let reply = start(&house, key, "order-7", &other).await;
        assert_eq!(reply.told(), (409, "IDEMPOTENCY_CONFLICT".to_owned()), "{other}");
    }
    // A later version of the workflow is still the same request.
    let later = "workflow: plain\nversion: 2\nsteps:\n  - { id: a, tool: transform, with: { value: 1 } }\n";
    let applied = house.post(house.acme.key(Role::Admin), "/workflows", &json!({ "source": later })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    assert_eq!(start(&house, key, "order-7", &plain(&json!({ "n": 1 }))).await.bytes, first.bytes);
}

#[tokio::test]
async fn idempotency_key_reuse_other_tenant() {
    let house = House::new().await;
    let runs = [
        start(&house, house.acme.key(Role::Operator), "order-7", &plain(&json!({ "n": 1 }))).await,
        start(&house, house.umbrella.key(Role::Operator), "order-7", &plain(&json!({ "n": 2 }))).await,
        // Another key of the same tenant names other requests, too.
        start(&house, house.acme.key(Role::Admin), "order-7", &plain(&json!({ "n": 3 }))).await,
    ];
    let mut names: Vec<String> = runs.iter().map(|reply| reply.json()["run"].to_string()).collect();
    assert!(runs.iter().all(|reply| reply.status == 201));
    names.dedup();
    assert_eq!(names.len(), 3);
}

#[tokio::test]
async fn mass_assignment_status_field() {
    let house = House::new().await;
    let (operator, admin) = (house.acme.key(Role::Operator), house.acme.key(Role::Admin));
    let settled = json!({
        "people": {}, "groups": {}, "caps": { "max_writes_per_run": 1 }, "revision": null, "policy": null
    });
    for (method, key, path, body) in [
        ("POST", operator, "/runs".to_owned(), json!({ "workflow": "plain", "status": "succeeded" })),
        ("POST", operator, "/runs".to_owned(), json!({ "workflow": "plain", "tenant": "umbrella" })),
        (
            "POST",
            operator,
            format!("/runs/{}/cancel", house.acme.runs.asking),
            json!({ "status": "canceled" }),
        ),
        (
            "POST",
            house.acme.key(Role::Approver),
            format!("/approvals/{}/approve", house.acme.runs.approval),
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
        let reply = house.json(&method.parse().unwrap(), key, &path, &body).await;
        assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()), "{path} {body}");
        assert!(reply.text().contains("unknown field"), "{}", reply.text());
    }
}

#[tokio::test]
async fn negative_page_size() {
    let house = House::new().await;
    let key = house.acme.key(Role::Viewer);
    let events = format!("/runs/{}/events", house.acme.runs.finished);
    for path in ["/runs", "/approvals", &events] {
        for limit in ["-1", "0", "201", "99999999999999999999", "1.5", "", "many", "%00"] {
            let reply = house.get(key, &format!("{path}?limit={limit}")).await;
            assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()), "{path} {limit}");
            assert!(reply.text().contains("from 1 to 200"), "{}", reply.text());
        }
    }
}

#[tokio::test]
async fn an_idempotency_key_is_one_visible_text() {
    let house = House::new().await;
    let key = house.acme.key(Role::Operator);
    for name in ["", "a b", &"x".repeat(256)] {
        let reply = start(&house, key, name, &plain(&json!({}))).await;
        assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()), "{name:?}");
    }
    let twice = Request::post("/api/v1/runs")
        .header("authorization", format!("Bearer {key}"))
        .header("content-type", "application/json")
        .header("idempotency-key", "a")
        .header("idempotency-key", "b");
    let reply = house.send(twice.body(Body::from(plain(&json!({})).to_string())).unwrap()).await;
    assert_eq!(reply.status, 400);
    // Whoever chooses none gets a run of their own each time.
    let (one, two) = (
        house.post(key, "/runs", &plain(&json!({}))).await,
        house.post(key, "/runs", &plain(&json!({}))).await,
    );
    assert_eq!((one.status, two.status), (201, 201));
    assert_ne!(one.bytes, two.bytes);
}
