//! The roll of workers.

use std::sync::Arc;

use domain::worker_registry::KEPT_FOR;
use domain::{Cause, DrainRequest, Initiator, Timestamp, WorkerId, WorkerRecord, WorkerReport};
use store::{Store, Write};

cases![
    a_worker_is_found_on_the_roll_by_its_name,
    a_place_on_the_roll_is_written_only_by_whoever_saw_it,
    a_worker_that_signs_does_not_write_over_the_wish_that_it_leaves,
    the_roll_has_every_worker_once_and_by_name,
];

const CAME: Timestamp = Timestamp(1_800_000_000_000);

fn worker(name: &str) -> WorkerRecord {
    WorkerRecord::new(WorkerId::new(name).unwrap(), WorkerReport::Working { in_hand: 0 }, CAME)
}

fn asked() -> DrainRequest {
    DrainRequest::new(Initiator::new(Cause::User, "ada"), "a new release", CAME)
}

async fn a_worker_is_found_on_the_roll_by_its_name<S: Store>(store: Arc<S>) {
    let came = worker("worker-1");
    assert_eq!(store.registered_worker(&came.worker).await.unwrap(), None);
    assert_eq!(store.put_worker(came.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.registered_worker(&came.worker).await.unwrap(), Some(came));
    assert_eq!(store.registered_worker(&worker("worker-10").worker).await.unwrap(), None);
}

async fn a_place_on_the_roll_is_written_only_by_whoever_saw_it<S: Store>(store: Arc<S>) {
    let came = worker("worker-1");
    assert_eq!(
        store.put_worker(came.signs(WorkerReport::Left { finished: true }, CAME)).await.unwrap(),
        Write::Superseded
    );
    assert_eq!(store.put_worker(came.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_worker(came.clone()).await.unwrap(), Write::Superseded);
    let next = came.signs(WorkerReport::Working { in_hand: 7 }, Timestamp(CAME.0 + 1));
    assert_eq!(store.put_worker(next.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_worker(next.clone()).await.unwrap(), Write::Superseded);
    assert_eq!(store.registered_worker(&came.worker).await.unwrap(), Some(next));
}

async fn a_worker_that_signs_does_not_write_over_the_wish_that_it_leaves<S: Store>(store: Arc<S>) {
    let came = worker("worker-1");
    assert_eq!(store.put_worker(came.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_worker(came.with_drain_request(asked())).await.unwrap(), Write::Committed);
    let unaware = came.signs(WorkerReport::Working { in_hand: 1 }, CAME);
    assert_eq!(store.put_worker(unaware).await.unwrap(), Write::Superseded);
    let stands = store.registered_worker(&came.worker).await.unwrap().unwrap();
    assert_eq!(stands.asked, Some(asked()));
    let aware = stands.signs(WorkerReport::Leaving { in_hand: 1 }, CAME);
    assert_eq!(store.put_worker(aware.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.registered_worker(&came.worker).await.unwrap(), Some(aware));
}

async fn the_roll_has_every_worker_once_and_by_name<S: Store>(store: Arc<S>) {
    assert_eq!(store.roll().await.unwrap(), []);
    let names = ["worker-10", "dev-1", "worker-2", "worker-1"];
    for name in names {
        assert_eq!(store.put_worker(worker(name)).await.unwrap(), Write::Committed);
    }
    let again = worker("worker-2").signs(WorkerReport::Leaving { in_hand: 2 }, CAME + KEPT_FOR);
    assert_eq!(store.put_worker(again.clone()).await.unwrap(), Write::Committed);
    let by_name = [worker("dev-1"), worker("worker-1"), worker("worker-10"), again];
    assert_eq!(store.roll().await.unwrap(), by_name);
}
