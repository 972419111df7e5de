//! A queue and blobs that count the requests that SQS and S3 would receive.
//!
//! This process has no SQS and no S3. The embedded store replaces both, and each call is counted as the requests
//! that `SqsQueue` and `S3Blobs` send for it.

use std::time::Duration;

use domain::{BlobRef, Millis, Outgoing, QueueName, TenantId};
use store::{BlobKind, Blobs, Delivery, Handle, Queue, SqliteStore, StoreError};

use crate::meter::{Kind, Meter, Service, Tally, WriteKind};

/// The size of an SQS batch.
const BATCH_MAX: usize = 10;

/// Caps message delays, because waiting costs nothing and would slow the measurement.
const DELAY_MAX: Millis = Millis(250);

/// The embedded store with a meter.
#[derive(Clone)]
pub(crate) struct CountingStore {
    pub(crate) store: SqliteStore,
    pub(crate) meter: Meter,
}

impl CountingStore {
    async fn count_request<T>(&self, kind: (Service, &str, &str), answer: impl Future<Output = T>) -> T {
        let (service, operation, about) = kind;
        let kind = Kind { service, operation: operation.to_owned(), about: about.to_owned() };
        self.meter.add(kind, Tally { requests: 1, ..Tally::default() });
        self.meter.sent();
        let answer = answer.await;
        self.meter.record_response(WriteKind::default());
        answer
    }

    async fn send_batch(&self, queue: QueueName, batch: &[&Outgoing]) {
        self.count_request((Service::Sqs, "SendMessageBatch", queue.as_str()), async {
            for message in batch {
                // The embedded queue in memory accepts every message.
                let _ = self.store.send(&with_capped_delay(message)).await;
            }
        })
        .await;
    }
}

fn with_capped_delay(message: &Outgoing) -> Outgoing {
    Outgoing { delay: message.delay.min(DELAY_MAX), ..message.clone() }
}

impl Queue for CountingStore {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let kind = (Service::Sqs, "SendMessage", message.queue.as_str());
        self.count_request(kind, self.store.send(&with_capped_delay(message))).await
    }

    /// One message is sent alone; several are sent in batches, one queue after the other.
    async fn send_all(&self, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        if let [message] = messages {
            return vec![self.send(message).await];
        }
        for queue in QueueName::ALL {
            let of_queue: Vec<_> = messages.iter().filter(|message| message.queue == queue).collect();
            for batch in of_queue.chunks(BATCH_MAX) {
                self.send_batch(queue, batch).await;
            }
        }
        messages.iter().map(|_| Ok(())).collect()
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        let receive = self.store.receive(queue, max, visibility, wait);
        self.count_request((Service::Sqs, "ReceiveMessage", queue.as_str()), receive).await
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        let kind = (Service::Sqs, "ChangeMessageVisibility", "a message");
        self.count_request(kind, self.store.extend(handle, visibility)).await
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.meter.deleted();
        self.count_request((Service::Sqs, "DeleteMessage", "a message"), self.store.delete(handle)).await
    }

    store::delegate!(store: dead_letters, redrive);

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.count_request((Service::Sqs, "GetQueueAttributes", queue.as_str()), self.store.depth(queue))
            .await
    }

    async fn visible(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.count_request((Service::Sqs, "GetQueueAttributes", queue.as_str()), self.store.visible(queue))
            .await
    }
}

impl Blobs for CountingStore {
    async fn put_blob(&self, on: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        let kind = (Service::S3, "PutObject", on.as_str());
        self.count_request(kind, self.store.put_blob(on, tenant, bytes)).await
    }

    async fn blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.count_request((Service::S3, "GetObject", on.as_str()), self.store.blob(on, tenant, blob)).await
    }

    async fn put_bundle(
        &self,
        tenant: &TenantId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let kind = (Service::S3, "PutObject", "evidence");
        self.count_request(kind, self.store.put_bundle(tenant, name, bytes)).await
    }

    async fn bundle(&self, tenant: &TenantId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.count_request((Service::S3, "GetObject", "evidence"), self.store.bundle(tenant, name)).await
    }
}
