//! The switch of a tenant, and ending what is under way.

use countersign_contract::House;
use domain::Role;
use serde_json::{Value, json};

#[tokio::test]
async fn the_switch_is_turned_for_one_tenant_and_says_by_whom_and_why() {
    let house = House::new().await;
    let (admin, viewer) = (house.acme.key(Role::Admin), house.acme.key(Role::Viewer));
    let on = json!({ "stopped": false, "all": null, "tenant": null });
    assert_eq!(house.get(viewer, "/dispatch").await.json(), on);
    let stopped = house.post(admin, "/dispatch/stop", &json!({ "reason": "fire" })).await.json();
    assert_eq!((&stopped["by"], &stopped["reason"]), (&json!("adam"), &json!("fire")));
    let again = house.post(admin, "/dispatch/stop", &json!({ "reason": "flood" })).await.json();
    assert_eq!(again, stopped, "whoever stopped it first is remembered");
    assert_eq!(house.get(viewer, "/dispatch").await.json()["tenant"], stopped);
    assert_eq!(house.get(viewer, "/tenant").await.json()["stopped"], stopped);
    assert_eq!(house.get(house.umbrella.key(Role::Viewer), "/dispatch").await.json(), on);

    let started = house.post(house.acme.key(Role::Operator), "/runs", &json!({ "workflow": "plain" })).await;
    let run = started.json()["run"].as_str().unwrap().parse().unwrap();
    house.advance(&house.acme, &run).await;
    let status = async || house.get(viewer, &format!("/runs/{run}")).await.json()["status"].clone();
    assert_eq!(status().await, "queued");
    let started = house.post(admin, "/dispatch/start", &json!({})).await.json();
    assert_eq!(started, json!({ "announced": 1, "all": null, "next": null }));
    house.advance(&house.acme, &run).await;
    assert_eq!(status().await, "succeeded");
    let unsaid = house.post(admin, "/dispatch/stop", &json!({})).await;
    assert_eq!(unsaid.told(), (400, "BAD_REQUEST".to_owned()));
}

#[tokio::test]
async fn a_backout_counts_first_if_it_is_told_to_and_ends_the_runs_of_one_tenant() {
    let house = House::new().await;
    let (admin, other) = (house.acme.key(Role::Admin), house.umbrella.key(Role::Viewer));
    let before = house.get(other, "/runs").await;
    let counted = house.post(admin, "/backout", &json!({ "reason": "wrong", "dry_run": true })).await.json();
    assert_eq!((&counted["under_way"], &counted["done"]), (&json!(3), &json!(false)));
    assert_eq!(house.get(admin, "/dispatch").await.json()["stopped"], false);

    let ended = house.post(admin, "/backout", &json!({ "reason": "wrong" })).await.json();
    assert_eq!((&ended["canceled"], &ended["done"]), (&json!(3), &json!(true)), "{ended}");
    let again = house.post(admin, "/backout", &json!({ "reason": "wrong" })).await.json();
    assert_eq!((&again["canceled"], &again["done"]), (&json!(0), &json!(true)), "{again}");
    assert_eq!(house.get(admin, "/runs?status=canceled").await.json()["runs"].as_array().unwrap().len(), 3);
    assert_ne!(house.get(admin, "/dispatch").await.json()["tenant"]["backout"], Value::Null);
    assert_eq!(house.get(other, "/runs").await, before);
}

/// More runs than one request deals with.
const MANY: u64 = 230;

/// A house in which acme has many more runs, none of which anybody has begun.
async fn crowded() -> House {
    let house = House::new().await;
    for _ in 0..MANY {
        house.post(house.acme.key(Role::Operator), "/runs", &json!({ "workflow": "plain" })).await;
    }
    house
}

/// Asks at `path` until nothing is left to be done; every answer.
async fn to_the_end(house: &House, path: &str, body: &Value) -> Vec<Value> {
    let admin = house.acme.key(Role::Admin);
    let mut told = vec![house.post(admin, path, body).await.json()];
    while let Some(next) = told.last().and_then(|last| last["next"].as_str()) {
        let answer = house.post(admin, &format!("{path}?cursor={next}"), body).await.json();
        told.push(answer);
    }
    told
}

#[tokio::test]
async fn a_backout_of_more_runs_than_one_request_ends_goes_on_where_it_was() {
    let house = crowded().await;
    let counted = to_the_end(&house, "/backout", &json!({ "reason": "wrong", "dry_run": true })).await;
    assert!(counted.len() > 1 && counted[0]["under_way"].as_u64().unwrap() < MANY, "{counted:?}");
    assert_eq!(counted.last().unwrap()["under_way"], MANY + 3);

    let told = to_the_end(&house, "/backout", &json!({ "reason": "wrong" })).await;
    let ended: Vec<u64> = told.iter().map(|told| told["canceled"].as_u64().unwrap()).collect();
    assert!(ended.is_sorted() && (1..MANY).contains(&ended[0]), "{ended:?}");
    let (last, before) = told.split_last().unwrap();
    assert_eq!((&last["canceled"], &last["done"]), (&json!(MANY + 3), &json!(true)));
    assert!(before.iter().all(|told| told["done"] == false), "{before:?}");
}

#[tokio::test]
async fn a_start_of_more_runs_than_one_request_announces_goes_on_where_it_was() {
    let house = crowded().await;
    house.post(house.acme.key(Role::Admin), "/dispatch/stop", &json!({ "reason": "fire" })).await;
    let told = to_the_end(&house, "/dispatch/start", &json!({})).await;
    assert!(told.len() > 1 && told[0]["announced"].as_u64().unwrap() < MANY, "{told:?}");
    assert_eq!(told.last().unwrap()["announced"], MANY);
}

#[tokio::test]
async fn nobody_goes_on_with_what_is_anothers_or_is_no_longer_so() {
    let house = crowded().await;
    let (admin, wrong) = (house.acme.key(Role::Admin), json!({ "reason": "wrong" }));
    let begun = house.post(admin, "/backout", &wrong).await.json();
    let on = format!("/backout?cursor={}", begun["next"].as_str().unwrap());
    let refused =
        |reply: countersign_contract::Reply| assert_eq!(reply.told(), (400, "BAD_REQUEST".to_owned()));
    refused(house.post(house.umbrella.key(Role::Admin), &on, &wrong).await);
    refused(house.post(admin, &on, &json!({ "reason": "wrong", "dry_run": true })).await);
    refused(house.post(admin, &on.replace("/backout", "/dispatch/start"), &json!({})).await);
    refused(house.post(admin, "/backout?cursor=made-up", &wrong).await);

    house.post(admin, "/dispatch/start", &json!({})).await;
    let late = house.post(admin, &on, &wrong).await;
    assert!(late.text().contains("dispatch was started since"), "{}", late.text());
    refused(late);
}

#[tokio::test]
async fn every_version_that_was_put_to_use_is_listed_the_newest_first() {
    let house = House::new().await;
    let (admin, viewer) = (house.acme.key(Role::Admin), house.acme.key(Role::Viewer));
    let source = |version: u32| {
        let steps = "steps:\n  - { id: shape, tool: transform, with: { value: done } }\n";
        json!({ "source": format!("workflow: plain\nversion: {version}\n{steps}") })
    };
    house.post(admin, "/workflows", &source(3)).await;
    let listed = house.get(viewer, "/workflows/plain/versions").await.json();
    let versions = listed["versions"].as_array().unwrap().iter();
    let told: Vec<_> = versions.map(|of| (of["version"].clone(), of["applied_by"].clone())).collect();
    assert_eq!(told, [(json!(3), json!("adam")), (json!(1), json!("adam"))]);
}
