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
    house.walk(&house.acme, &run).await;
    let status = async || house.get(viewer, &format!("/runs/{run}")).await.json()["status"].clone();
    assert_eq!(status().await, "queued");
    let started = house.post(admin, "/dispatch/start", &json!({})).await.json();
    assert_eq!(started, json!({ "announced": 1, "all": null }));
    house.walk(&house.acme, &run).await;
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
