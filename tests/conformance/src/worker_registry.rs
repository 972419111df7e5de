//! The worker registry.

use std::sync::Arc;

use domain::worker_registry::RECORD_TTL;
use domain::{Cause, DrainRequest, Initiator, Timestamp, WorkerId, WorkerRecord, WorkerReport};
use store::{Store, Write};

cases![
    worker_record_is_found_by_name,
    stale_write_does_not_replace_a_worker_record,
    heartbeat_does_not_overwrite_a_drain_request,
    workers_are_listed_once_by_name,
];

const NOW: Timestamp = Timestamp(1_800_000_000_000);

pub(crate) fn worker(name: &str) -> WorkerRecord {
    WorkerRecord::new(WorkerId::new(name).unwrap(), WorkerReport::Working { in_flight: 0 }, NOW)
}

fn drain_request() -> DrainRequest {
    DrainRequest::new(Initiator::new(Cause::User, "ada"), "a new release", NOW)
}

async fn worker_record_is_found_by_name<S: Store>(store: Arc<S>) {
    let record = worker("worker-1");
    assert_eq!(store.worker(&record.worker).await.unwrap(), None);
    assert_eq!(store.put_worker(record.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.worker(&record.worker).await.unwrap(), Some(record));
    assert_eq!(store.worker(&worker("worker-10").worker).await.unwrap(), None);
}

async fn stale_write_does_not_replace_a_worker_record<S: Store>(store: Arc<S>) {
    let record = worker("worker-1");
    assert_eq!(
        store.put_worker(record.heartbeat(WorkerReport::Stopped { drained: true }, NOW)).await.unwrap(),
        Write::Superseded
    );
    assert_eq!(store.put_worker(record.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_worker(record.clone()).await.unwrap(), Write::Superseded);
    let next = record.heartbeat(WorkerReport::Working { in_flight: 7 }, Timestamp(NOW.0 + 1));
    assert_eq!(store.put_worker(next.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_worker(next.clone()).await.unwrap(), Write::Superseded);
    assert_eq!(store.worker(&record.worker).await.unwrap(), Some(next));
}

async fn heartbeat_does_not_overwrite_a_drain_request<S: Store>(store: Arc<S>) {
    let record = worker("worker-1");
    assert_eq!(store.put_worker(record.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_worker(record.with_drain_request(drain_request())).await.unwrap(), Write::Committed);
    let unaware = record.heartbeat(WorkerReport::Working { in_flight: 1 }, NOW);
    assert_eq!(store.put_worker(unaware).await.unwrap(), Write::Superseded);
    let current = store.worker(&record.worker).await.unwrap().unwrap();
    assert_eq!(current.drain_request, Some(drain_request()));
    let aware = current.heartbeat(WorkerReport::Draining { in_flight: 1 }, NOW);
    assert_eq!(store.put_worker(aware.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.worker(&record.worker).await.unwrap(), Some(aware));
}

async fn workers_are_listed_once_by_name<S: Store>(store: Arc<S>) {
    assert_eq!(store.workers().await.unwrap(), []);
    let names = ["worker-10", "dev-1", "worker-2", "worker-1"];
    for name in names {
        assert_eq!(store.put_worker(worker(name)).await.unwrap(), Write::Committed);
    }
    let again = worker("worker-2").heartbeat(WorkerReport::Draining { in_flight: 2 }, NOW + RECORD_TTL);
    assert_eq!(store.put_worker(again.clone()).await.unwrap(), Write::Committed);
    let by_name = [worker("dev-1"), worker("worker-1"), worker("worker-10"), again];
    assert_eq!(store.workers().await.unwrap(), by_name);
}
