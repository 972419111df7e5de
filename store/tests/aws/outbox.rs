//! Errands outlive whoever committed them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use countersign_store::aws::{AwsParts, AwsStore};
use countersign_store::{
    Archive as _, DeadLetter, Delivery, Handle, Ledger as _, Queue, SqliteStore, StoreError, SystemClock,
    Write,
};
use domain::command::Cancel;
use domain::{BlobRef, Digest, Errand, Evidence, Lane, Millis, Outgoing, RunRecord, Timestamp, TraceContext};

use crate::Own;
use crate::account::Account;
use crate::run::{begin, decide};

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![
        ("an_errand_that_was_not_sent_is_sent_by_the_sweep_and_once", |account| {
            Box::pin(an_errand_that_was_not_sent_is_sent_by_the_sweep_and_once(account))
        }),
        ("evidence_is_asked_for_again_until_it_is_recorded", |account| {
            Box::pin(evidence_is_asked_for_again_until_it_is_recorded(account))
        }),
        ("a_walk_that_was_not_sent_is_found_by_the_due_index", |account| {
            Box::pin(a_walk_that_was_not_sent_is_found_by_the_due_index(account))
        }),
    ]
}

/// Later than any errand waits.
const FAR_AHEAD: Timestamp = Timestamp(i64::MAX / 2);

async fn an_errand_that_was_not_sent_is_sent_by_the_sweep_and_once(account: Account) {
    let (store, down) = store(&account);
    let led_here = TraceContext::of_run(&begin(&store, "another").await.key);
    let record = RunRecord { trace: Some(led_here), ..begin(&store, "request").await };
    down.store(true, Ordering::Relaxed);
    let canceled = decide(record, Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled.clone()).await.unwrap(), Write::Committed);
    assert!(store.flush_outbox(FAR_AHEAD, 10).await.is_err());
    down.store(false, Ordering::Relaxed);
    assert_eq!(store.flush_outbox(Timestamp(0), 10).await.unwrap(), 0);

    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 1);
    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);

    let received = received(&store).await;
    let seals: Vec<_> = received.iter().filter(|delivery| delivery.errand == Errand::Seal).collect();
    assert_eq!(seals.iter().map(|seal| seal.trace).collect::<Vec<_>>(), [led_here], "{received:?}");
}

async fn evidence_is_asked_for_again_until_it_is_recorded(account: Account) {
    let (store, _) = store(&account);
    let record = begin(&store, "request").await;
    let canceled = decide(record.clone(), Cancel { reason: "enough".to_owned() });
    assert_eq!(store.commit(canceled).await.unwrap(), Write::Committed);
    assert!(received(&store).await.iter().any(|delivery| delivery.errand == Errand::Seal));
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), []);

    let bundle = BlobRef { sha256: Digest::of_bytes(b"bundle"), bytes: 6 };
    let evidence = Evidence { bundle, index: 0, sealed_at: Timestamp(0) };
    assert_eq!(store.put_evidence(&record.key, evidence.clone()).await.unwrap(), Write::Committed);

    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
    assert_eq!(store.evidence(&record.key).await.unwrap(), Some(evidence));
}

async fn a_walk_that_was_not_sent_is_found_by_the_due_index(account: Account) {
    let (store, down) = store(&account);
    down.store(true, Ordering::Relaxed);
    let record = begin(&store, "request").await;
    down.store(false, Ordering::Relaxed);
    assert!(received(&store).await.is_empty());
    assert_eq!(store.flush_outbox(FAR_AHEAD, 10).await.unwrap(), 0);
    assert_eq!(store.due(FAR_AHEAD, 10).await.unwrap(), [record.key]);
}

async fn received(store: &AwsStore<Unsteady, SqliteStore>) -> Vec<Delivery> {
    store.receive(Lane::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap()
}

/// A store whose queue can be taken away.
fn store(account: &Account) -> (AwsStore<Unsteady, SqliteStore>, Arc<AtomicBool>) {
    let down = Arc::new(AtomicBool::new(false));
    let store = AwsStore::new(AwsParts {
        client: account.client.clone(),
        table: account.table.clone(),
        queue: Unsteady { queue: account.beside.clone(), down: Arc::clone(&down) },
        blobs: account.beside.clone(),
        clock: Arc::new(SystemClock),
    });
    (store, down)
}

/// A queue that takes no messages while it is down.
#[derive(Clone)]
pub(crate) struct Unsteady {
    pub(crate) queue: SqliteStore,
    pub(crate) down: Arc<AtomicBool>,
}

impl Queue for Unsteady {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        if self.down.load(Ordering::Relaxed) {
            return Err(StoreError::Busy { doing: "send a message" });
        }
        self.queue.send(message).await
    }

    async fn receive(
        &self,
        lane: Lane,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.queue.receive(lane, max, visibility, wait).await
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        self.queue.extend(handle, visibility).await
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.queue.delete(handle).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.queue.dead_letters(limit).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.queue.redrive(limit).await
    }

    async fn depth(&self, lane: Lane) -> Result<u64, StoreError> {
        self.queue.depth(lane).await
    }

    async fn waiting(&self, lane: Lane) -> Result<u64, StoreError> {
        self.queue.waiting(lane).await
    }
}
