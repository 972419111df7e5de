//! Every route with every role and with ids of every kind.

use api::{RouteInfo, route_table};
use axum::body::Body;
use axum::http::Request;
use countersign_contract::{ContractEnv, PathValue, Reply, TestTenant, body_for};
use domain::Role;
use store::SqliteStore;

/// Invalid ids: too long, dots, not UTF-8, delimiters and control characters.
fn malformed() -> Vec<&'static str> {
    let long: &'static str = Box::leak("x".repeat(2049).into_boxed_str());
    vec!["..", "a%23b", "a:b", "a%00b", "%ff%fe", "a%2Fb", "%20", "a%0Ab", "%E2%80%AE", long]
}

/// A sample request to a route.
fn request(row: &RouteInfo, key: &str, (value, tenant): (PathValue, &TestTenant)) -> Request<Body> {
    let path = format!("{}{}", api_types::PREFIX, value.in_path(row.path, row.name, tenant));
    let request = Request::builder().method(row.method.clone()).uri(path);
    let request =
        if key.is_empty() { request } else { request.header("authorization", format!("Bearer {key}")) };
    let sent = body_for(row.name);
    assert_eq!(sent.is_some(), row.takes_a_body(), "add a sample body for {} in samples.rs", row.name);
    match sent {
        Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

fn with_ids() -> Vec<RouteInfo> {
    route_table::<SqliteStore>().into_iter().filter(|row| row.ids().next().is_some()).collect()
}

/// An API key with the role of the route.
fn key_with_role<'t>(row: &RouteInfo, tenant: &'t TestTenant) -> &'t str {
    row.role.map_or("", |role| tenant.key(role))
}

/// All readable state of a tenant.
async fn everything(env: &ContractEnv, tenant: &TestTenant) -> Vec<Reply> {
    let runs = &tenant.runs;
    let mut seen = Vec::new();
    for run in [&runs.finished, &runs.asking, &runs.waiting, &runs.paused] {
        seen.push(env.get(tenant.key(Role::Viewer), &format!("/runs/{run}/events")).await);
    }
    seen.push(env.get(tenant.key(Role::Viewer), &format!("/approvals/{}", runs.approval)).await);
    for path in ["/workflows", "/tenant", "/policy", "/keys", "/runs"] {
        seen.push(env.get(tenant.key(Role::Admin), path).await);
    }
    seen
}

/// On every route, a resource of another tenant looks like one that does not exist.
#[tokio::test]
async fn other_tenant_run_id() {
    let env = ContractEnv::new().await;
    let (acme, umbrella) = (&env.acme, &env.umbrella);
    let before = everything(&env, umbrella).await;
    for row in with_ids() {
        let key = key_with_role(&row, acme);
        let unknown = env.send(request(&row, key, (PathValue::Unknown, acme))).await;
        assert_eq!(unknown.status_and_code(), (404, "NOT_FOUND".to_owned()), "{}", row.name);
        let others = env.send(request(&row, key, (PathValue::Own, umbrella))).await;
        assert_eq!(others, unknown, "{} of another tenant", row.name);
        for text in malformed() {
            let reply = env.send(request(&row, key, (PathValue::Malformed(text), acme))).await;
            assert_eq!(reply, unknown, "{} of {text:?}", row.name);
        }
    }
    assert_eq!(everything(&env, umbrella).await, before, "nothing of the other tenant changed");
}

/// Without this test, the one above would also pass in an empty environment.
#[tokio::test]
async fn own_resource_is_found_on_every_route() {
    let env = ContractEnv::new().await;
    for row in with_ids() {
        let reply =
            env.send(request(&row, key_with_role(&row, &env.acme), (PathValue::Own, &env.acme))).await;
        assert_ne!(reply.code(), "NOT_FOUND", "{}", row.name);
        assert!(reply.status < 500, "{}: {}", row.name, reply.text());
    }
}

#[tokio::test]
async fn every_route_checks_its_role() {
    for role in Role::ALL {
        let env = ContractEnv::new().await;
        for row in route_table::<SqliteStore>() {
            let Some(wanted) = row.role else { continue };
            let reply = env.send(request(&row, env.acme.key(role), (PathValue::Own, &env.acme))).await;
            let may = domain::Roles::from_iter([role]).allow(wanted);
            assert_eq!(reply.code() == "FORBIDDEN", !may, "{} as {role}: {}", row.name, reply.text());
            assert_eq!(reply.status == 403, !may, "{} as {role}: {}", row.name, reply.text());
        }
    }
}

#[tokio::test]
async fn every_route_needs_a_credential() {
    let env = ContractEnv::new().await;
    let stranger = "csk_acme_0004_ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
    for row in route_table::<SqliteStore>() {
        for key in ["", "nonsense", "a.b.c", stranger] {
            for value in [PathValue::Own, PathValue::Unknown] {
                let reply = env.send(request(&row, key, (value, &env.acme))).await;
                match row.role {
                    Some(_) => {
                        assert_eq!(
                            reply.status_and_code(),
                            (401, "UNAUTHENTICATED".to_owned()),
                            "{}",
                            row.name
                        );
                        assert_eq!(reply.header("www-authenticate"), "Bearer");
                    }
                    None => assert_eq!(reply.status, 200, "{}", row.name),
                }
            }
        }
    }
}

#[tokio::test]
async fn unknown_path_or_method_is_a_problem() {
    let env = ContractEnv::new().await;
    let key = env.acme.key(Role::Admin);
    for row in route_table::<SqliteStore>() {
        for method in ["PATCH", "TRACE", "OPTIONS"] {
            let path = PathValue::Own.in_path(row.path, row.name, &env.acme);
            let reply = env.json(&method.parse().unwrap(), key, &path, &serde_json::json!({})).await;
            assert_eq!(reply.status_and_code(), (405, "METHOD_NOT_ALLOWED".to_owned()), "{method} {path}");
            assert!(reply.header("allow").contains(row.method.as_str()), "{}", reply.header("allow"));
        }
    }
    for path in ["", "/", "/run", "/runs/a/b/c", "/runs/", "//runs"] {
        assert_eq!(env.get(key, path).await.status_and_code(), (404, "NOT_FOUND".to_owned()), "{path}");
    }
}
