//! One run at a time for each ticket, as whoever calls the API meets it.

use countersign_contract::House;
use domain::{Role, RunKey};
use serde_json::{Value, json};

use crate::threats::start;

/// A house where a workflow has one run at a time for each host.
async fn house(when_taken: &str) -> House {
    let house = House::new().await;
    let source = format!(
        "workflow: restart\nversion: 2\nticket: {{ of: '${{ trigger.host }}', when_taken: {when_taken} }}\n\
         steps:\n  - {{ id: go, tool: approval.gate, with: {{ message: Go? }} }}\n"
    );
    let applied = house.post(house.acme.key(Role::Admin), "/workflows", &json!({ "source": source })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
    house
}

fn of(host: &str) -> Value {
    json!({ "workflow": "restart", "input": { "host": host } })
}

/// Ends the run that a request was answered with.
async fn end(house: &House, run: &Value) {
    let path = format!("/runs/{}/cancel", run.as_str().unwrap());
    let ended = house.post(house.acme.key(Role::Operator), &path, &json!({ "reason": "enough" })).await;
    assert_eq!(ended.status, 200, "{}", ended.text());
}

#[tokio::test]
async fn a_request_that_joined_is_answered_alike_for_ever_and_starts_nothing_later() {
    let house = house("join").await;
    let key = house.acme.key(Role::Operator);
    let first = start(&house, key, "a", &of("db1")).await;
    let joined = start(&house, key, "b", &of("db1")).await;
    assert_eq!((first.status, joined.status), (201, 200), "{}", joined.text());
    assert_eq!(joined.json()["run"], first.json()["run"]);
    assert_eq!(start(&house, key, "b", &of("db2")).await.told(), (409, "IDEMPOTENCY_CONFLICT".to_owned()));

    end(&house, &first.json()["run"]).await;
    let again = start(&house, key, "b", &of("db1")).await;
    assert_eq!((again.status, again.json()["run"].clone()), (200, first.json()["run"].clone()));
    assert_eq!(start(&house, key, "c", &of("db1")).await.status, 201, "another request is another run");
}

#[tokio::test]
async fn a_request_that_waits_keeps_its_key() {
    let house = house("queue").await;
    let key = house.acme.key(Role::Operator);
    let first = start(&house, key, "a", &of("db1")).await;
    let waits = start(&house, key, "b", &of("db1")).await;
    assert_eq!(waits.status, 202, "{}", waits.text());
    assert_eq!(start(&house, key, "b", &of("db2")).await.told(), (409, "IDEMPOTENCY_CONFLICT".to_owned()));
    assert_eq!(start(&house, key, "b", &of("db1")).await.status, 202);

    // It is first in line when the run that it waits for ends, and does not wait for itself.
    let run = waits.json()["run"].as_str().unwrap().parse().unwrap();
    house.engine.begin(&RunKey { tenant: house.acme.tenant.clone(), run }).await.unwrap();
    end(&house, &first.json()["run"]).await;
    let begun = start(&house, key, "b", &of("db1")).await;
    assert_eq!((begun.status, &begun.json()["run"]), (201, &waits.json()["run"]), "{}", begun.text());
}

#[tokio::test]
async fn a_ticket_that_is_taken_or_unknown_is_told_with_what_would_help() {
    let house = house("refuse").await;
    let key = house.acme.key(Role::Operator);
    let first = start(&house, key, "a", &of("db1")).await;
    for (name, body, code, helps) in [
        ("b", of("db1"), (409, "TICKET_TAKEN"), "when that run is over"),
        ("c", json!({ "workflow": "restart", "input": {} }), (400, "TICKET_UNKNOWN"), "`ticket`"),
    ] {
        let refused = start(&house, key, name, &body).await;
        assert_eq!(refused.told(), (code.0, code.1.to_owned()), "{}", refused.text());
        assert!(refused.json()["remedy"].as_str().unwrap().contains(helps), "{}", refused.text());
    }
    end(&house, &first.json()["run"]).await;
    assert_eq!(start(&house, key, "b", &of("db1")).await.status, 201, "what was refused may be sent again");
}

#[tokio::test]
async fn an_older_version_is_refused_with_what_would_help() {
    let house = house("join").await;
    let older = "workflow: restart\nversion: 1\nsteps:\n  - { id: a, tool: transform }\n";
    let refused = house.post(house.acme.key(Role::Admin), "/workflows", &json!({ "source": older })).await;
    assert_eq!(refused.told(), (409, "WORKFLOW_NOT_NEWER".to_owned()), "{}", refused.text());
    assert!(refused.json()["remedy"].as_str().unwrap().contains("`version`"));
}
