//! Every route, with every role, and with the names of things of every kind.

use api::{Row, rows};
use axum::body::Body;
use axum::http::Request;
use countersign_contract::{House, Place, Reply, Told, body_for};
use domain::Role;
use store::SqliteStore;

/// Texts that are no names: too long, made of dots, not UTF-8, with delimiters and control characters.
fn malformed() -> Vec<&'static str> {
    let long: &'static str = Box::leak("x".repeat(2049).into_boxed_str());
    vec!["..", "a%23b", "a:b", "a%00b", "%ff%fe", "a%2Fb", "%20", "a%0Ab", "%E2%80%AE", long]
}

/// A request to a route, in the name of whoever holds `key`, about things of `told`.
fn request(row: &Row, key: &str, (place, told): (Place, &Told)) -> Request<Body> {
    let path = format!("{}{}", api_types::PREFIX, place.in_path(row.path, row.name, told));
    let request = Request::builder().method(row.method.clone()).uri(path);
    let request =
        if key.is_empty() { request } else { request.header("authorization", format!("Bearer {key}")) };
    let sent = body_for(row.name);
    assert_eq!(sent.is_some(), row.takes_a_body(), "say in samples.rs what {} is sent", row.name);
    match sent {
        Some(body) => request.header("content-type", "application/json").body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

fn with_ids() -> Vec<Row> {
    rows::<SqliteStore>().into_iter().filter(|row| row.ids().next().is_some()).collect()
}

/// A key that may do what the route does.
fn able<'t>(row: &Row, told: &'t Told) -> &'t str {
    row.role.map_or("", |role| told.key(role))
}

/// Everything of a tenant that could have been changed, as its own viewer and admin see it.
async fn everything(house: &House, told: &Told) -> Vec<Reply> {
    let runs = &told.runs;
    let mut seen = Vec::new();
    for run in [&runs.finished, &runs.asking, &runs.waiting, &runs.paused] {
        seen.push(house.get(told.key(Role::Viewer), &format!("/runs/{run}/events")).await);
    }
    seen.push(house.get(told.key(Role::Viewer), &format!("/approvals/{}", runs.approval)).await);
    for path in ["/workflows", "/tenant", "/policy", "/keys", "/runs"] {
        seen.push(house.get(told.key(Role::Admin), path).await);
    }
    seen
}

/// B7: on every route, what is another tenant's is not there, and cannot be told from what nobody has.
#[tokio::test]
async fn other_tenant_run_id() {
    let house = House::new().await;
    let (acme, umbrella) = (&house.acme, &house.umbrella);
    let before = everything(&house, umbrella).await;
    for row in with_ids() {
        let key = able(&row, acme);
        let unknown = house.send(request(&row, key, (Place::Unknown, acme))).await;
        assert_eq!(unknown.told(), (404, "NOT_FOUND".to_owned()), "{}", row.name);
        let others = house.send(request(&row, key, (Place::Own, umbrella))).await;
        assert_eq!(others, unknown, "{} of another tenant", row.name);
        for text in malformed() {
            let reply = house.send(request(&row, key, (Place::Malformed(text), acme))).await;
            assert_eq!(reply, unknown, "{} of {text:?}", row.name);
        }
    }
    assert_eq!(everything(&house, umbrella).await, before, "nothing of the other tenant changed");
}

/// The same names are found by those whose they are: the test above would hold in an empty house, too.
#[tokio::test]
async fn what_is_ones_own_is_found_on_every_route() {
    let house = House::new().await;
    for row in with_ids() {
        let reply = house.send(request(&row, able(&row, &house.acme), (Place::Own, &house.acme))).await;
        assert_ne!(reply.code(), "NOT_FOUND", "{}", row.name);
        assert!(reply.status < 500, "{}: {}", row.name, reply.text());
    }
}

#[tokio::test]
async fn every_route_takes_its_role_and_refuses_every_other() {
    for role in Role::ALL {
        let house = House::new().await;
        for row in rows::<SqliteStore>() {
            let Some(wanted) = row.role else { continue };
            let reply = house.send(request(&row, house.acme.key(role), (Place::Own, &house.acme))).await;
            let may = domain::Roles::from_iter([role]).allow(wanted);
            assert_eq!(reply.code() == "FORBIDDEN", !may, "{} as {role}: {}", row.name, reply.text());
            assert_eq!(reply.status == 403, !may, "{} as {role}: {}", row.name, reply.text());
        }
    }
}

#[tokio::test]
async fn nobody_is_told_anything_before_they_prove_who_they_are() {
    let house = House::new().await;
    let stranger = "csk_acme_0004_ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff";
    for row in rows::<SqliteStore>() {
        for key in ["", "nonsense", "a.b.c", stranger] {
            for place in [Place::Own, Place::Unknown] {
                let reply = house.send(request(&row, key, (place, &house.acme))).await;
                match row.role {
                    Some(_) => {
                        assert_eq!(reply.told(), (401, "UNAUTHENTICATED".to_owned()), "{}", row.name);
                        assert_eq!(reply.header("www-authenticate"), "Bearer");
                    }
                    None => assert_eq!(reply.status, 200, "{}", row.name),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_method_or_an_address_that_there_is_not_is_a_problem_too() {
    let house = House::new().await;
    let key = house.acme.key(Role::Admin);
    for row in rows::<SqliteStore>() {
        for method in ["PATCH", "TRACE", "OPTIONS"] {
            let path = Place::Own.in_path(row.path, row.name, &house.acme);
            let reply = house.json(&method.parse().unwrap(), key, &path, &serde_json::json!({})).await;
            assert_eq!(reply.told(), (405, "METHOD_NOT_ALLOWED".to_owned()), "{method} {path}");
            assert!(reply.header("allow").contains(row.method.as_str()), "{}", reply.header("allow"));
        }
    }
    for path in ["", "/", "/run", "/runs/a/b/c", "/runs/", "//runs"] {
        assert_eq!(house.get(key, path).await.told(), (404, "NOT_FOUND".to_owned()), "{path}");
    }
}
