//! What came in to start a run and started none: whoever asks for that run is told what became of it, and nobody else.

use api::rows;
use countersign_contract::{House, Place, Reply, Told, body_for};
use domain::{Digest, Role, RunId, RunKey, Source};
use engine::InboundEvent;
use serde_json::json;
use store::SqliteStore;

/// Puts a workflow of acme's to use that wants whatever comes, one run at a time for each host.
async fn apply(house: &House, name: &str) {
    let source = format!(
        "workflow: {name}\nversion: 1\ntrigger: {{ webhook: {{}} }}\nticket: '${{ trigger.body.host }}'\n\
         steps:\n  - {{ id: ask, tool: approval.gate, with: {{ message: 'Go on?' }} }}\n"
    );
    let applied = house.post(house.acme.key(Role::Admin), "/workflows", &json!({ "source": source })).await;
    assert_eq!(applied.status, 200, "{}", applied.text());
}

/// The run that something would start which comes in for acme.
async fn come(house: &House, key: &str) -> RunKey {
    let knock = InboundEvent {
        tenant: house.acme.tenant.clone(),
        key: key.parse().unwrap(),
        source: Source::Webhook,
        about: None,
        record: None,
        proof: Digest::of_bytes(key.as_bytes()),
        dedupe_key: None,
        body: json!({ "body": { "host": "db1" } }),
        asked: None,
    };
    house.engine.accept(knock).await.unwrap().run
}

/// The same, once it was taken up.
async fn begin(house: &House, key: &str) -> RunId {
    let run = come(house, key).await;
    house.engine.begin(&run).await.unwrap();
    run.run
}

async fn show(house: &House, told: &Told, run: &RunId) -> Reply {
    house.get(told.key(Role::Viewer), &format!("/runs/{run}")).await
}

const TO_COME: &str = "RUN_TO_COME";
const NOT_STARTED: &str = "RUN_NOT_STARTED";

/// That it is not there, and what is told beside.
async fn detail(house: &House, run: &RunId, code: &str) -> String {
    let reply = show(house, &house.acme, run).await;
    assert_eq!(reply.told(), (404, code.to_owned()), "{}", reply.text());
    assert_ne!(reply.json()["remedy"], json!(null), "{}", reply.text());
    reply.json()["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn whoever_asks_for_a_run_that_was_not_started_is_told_why() {
    let house = House::new().await;
    let waits = detail(&house, &come(&house, "waits").await.run, TO_COME).await;
    assert!(waits.contains("waits for a worker"), "{waits}");
    let unwanted = detail(&house, &begin(&house, "unwanted").await, NOT_STARTED).await;
    assert!(unwanted.contains("no workflow wanted what came in"), "{unwanted}");

    apply(&house, "first").await;
    let begun = begin(&house, "begun").await;
    assert_eq!(show(&house, &house.acme, &begun).await.status, 200);
    let joined = detail(&house, &begin(&house, "joined").await, NOT_STARTED).await;
    assert!(joined.contains(begun.as_str()), "{joined}");

    apply(&house, "second").await;
    let refused = detail(&house, &begin(&house, "refused").await, NOT_STARTED).await;
    assert!(refused.contains("workflows first and second both want it"), "{refused}");
}

#[tokio::test]
async fn every_route_of_a_run_that_was_not_started_says_so() {
    let house = House::new().await;
    let run = begin(&house, "unwanted").await;
    let says = detail(&house, &run, NOT_STARTED).await;
    let mut told = house.acme.clone();
    let runs = &mut told.runs;
    for any in [&mut runs.finished, &mut runs.asking, &mut runs.waiting, &mut runs.paused] {
        *any = run.clone();
    }
    for row in rows::<SqliteStore>().into_iter().filter(|row| row.ids().any(|id| id == "run")) {
        let path = Place::Own.in_path(row.path, row.name, &told);
        let key = told.key(Role::Admin);
        let reply = house.json(&row.method, key, &path, &body_for(row.name).unwrap_or_default()).await;
        assert_eq!(reply.told(), (404, NOT_STARTED.to_owned()), "{}: {}", row.name, reply.text());
        assert_eq!(reply.json()["detail"], json!(says), "{}", row.name);
    }
}

#[tokio::test]
async fn what_came_in_for_another_tenant_and_what_never_came_are_told_in_the_same_bytes() {
    let house = House::new().await;
    let run = begin(&house, "unwanted").await;
    let never = "run-00000000000000000000000000000000".parse().unwrap();
    let unknown = show(&house, &house.umbrella, &never).await;
    assert_eq!(show(&house, &house.umbrella, &run).await, unknown);
    assert_eq!(show(&house, &house.acme, &never).await, unknown);
}
