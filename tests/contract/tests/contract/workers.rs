//! Workers.

use countersign_contract::ContractEnv;
use domain::{Cause, Initiator, Millis, Role, WorkerRecord, WorkerReport};
use serde_json::json;
use store::WorkerRegistry as _;

#[tokio::test]
async fn operators_of_every_tenant_list_all_workers() {
    let env = ContractEnv::new().await;
    let now = env.engine.now();
    let busy = WorkerRecord::new(
        "w-1".parse().unwrap(),
        WorkerReport::Working { in_flight: 2 },
        now.earlier(Millis(1)),
    );
    let lost = WorkerRecord::new(
        "w-0".parse().unwrap(),
        WorkerReport::Working { in_flight: 0 },
        now.earlier(Millis::mins(2)),
    );
    for worker in [&busy, &lost] {
        env.engine.store().put_worker(worker.clone()).await.unwrap();
    }
    let by = Initiator::new(Cause::User, "root");
    env.engine.operations().request_drain(&busy.worker, &by, "a new release").await.unwrap();

    let seen = env.get(env.acme.key(Role::Operator), "/workers").await.json();
    let workers = seen["workers"].as_array().unwrap();
    let fields = |at: usize| (&workers[at]["worker"], &workers[at]["status"], &workers[at]["in_flight"]);
    assert_eq!(fields(0), (&json!("w-0"), &json!("offline"), &json!(0)), "the oldest worker is first");
    assert_eq!(fields(1), (&json!("w-1"), &json!("draining"), &json!(2)));
    assert_eq!(workers[1]["drain_request"]["reason"], "a new release");
    assert_eq!(env.get(env.umbrella.key(Role::Operator), "/workers").await.json(), seen);
    assert_eq!(
        env.get(env.acme.key(Role::Viewer), "/workers").await.status_and_code(),
        (403, "FORBIDDEN".to_owned())
    );
}
