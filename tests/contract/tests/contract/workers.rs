//! The workers of the fleet.

use countersign_contract::House;
use domain::{Cause, Initiator, Millis, Role, WorkerRecord, WorkerReport};
use serde_json::json;
use store::WorkerRegistry as _;

#[tokio::test]
async fn operators_of_every_tenant_see_the_workers_that_serve_all_of_them() {
    let house = House::new().await;
    let now = house.engine.now();
    let busy = WorkerRecord::new(
        "w-1".parse().unwrap(),
        WorkerReport::Working { in_hand: 2 },
        now.earlier(Millis(1)),
    );
    let lost = WorkerRecord::new(
        "w-0".parse().unwrap(),
        WorkerReport::Working { in_hand: 0 },
        now.earlier(Millis::mins(2)),
    );
    for worker in [&busy, &lost] {
        house.engine.store().put_worker(worker.clone()).await.unwrap();
    }
    let by = Initiator::new(Cause::User, "root");
    house.engine.request_drain(&busy.worker, &by, "a new release").await.unwrap();

    let seen = house.get(house.acme.key(Role::Operator), "/workers").await.json();
    let workers = seen["workers"].as_array().unwrap();
    let told = |at: usize| (&workers[at]["worker"], &workers[at]["standing"], &workers[at]["in_hand"]);
    assert_eq!(told(0), (&json!("w-0"), &json!("offline"), &json!(0)), "whoever came first is first");
    assert_eq!(told(1), (&json!("w-1"), &json!("draining"), &json!(2)));
    assert_eq!(workers[1]["asked"]["reason"], "a new release");
    assert_eq!(house.get(house.umbrella.key(Role::Operator), "/workers").await.json(), seen);
    assert_eq!(
        house.get(house.acme.key(Role::Viewer), "/workers").await.told(),
        (403, "FORBIDDEN".to_owned())
    );
}
