//! A queue and blobs that count what SQS and S3 would be sent.
//!
//! There is no SQS and no S3 in this process: the embedded store plays both, and each call is counted as the
//! requests that `SqsQueue` and `S3Blobs` make of it.

use std::time::Duration;

use domain::{BlobRef, Millis, Outgoing, QueueName, TenantId};
use store::{BlobKind, Blobs, DeadLetter, Delivery, Handle, Queue, SqliteStore, StoreError};

use crate::meter::{Kind, Meaning, Meter, Service, Tally};

/// What SQS takes in one request.
const BATCH_MAX: usize = 10;

/// No message is under way for longer than this here: how long it is waited for costs nothing.
const DELAY_MAX: Millis = Millis(250);

/// The embedded store, counted.
#[derive(Clone)]
pub(crate) struct Counted {
    pub(crate) store: SqliteStore,
    pub(crate) meter: Meter,
}

impl Counted {
    async fn ask<T>(&self, kind: (Service, &str, &str), answer: impl Future<Output = T>) -> T {
        let (service, operation, about) = kind;
        let kind = Kind { service, operation: operation.to_owned(), about: about.to_owned() };
        self.meter.add(kind, Tally { requests: 1, ..Tally::default() });
        self.meter.sent();
        let answer = answer.await;
        self.meter.answered(Meaning::default());
        answer
    }

    async fn send_batch(&self, queue: QueueName, batch: &[&Outgoing]) {
        self.ask((Service::Sqs, "SendMessageBatch", queue.as_str()), async {
            for message in batch {
                // The embedded queue in memory takes everything.
                let _ = self.store.send(&sooner(message)).await;
            }
        })
        .await;
    }
}

fn sooner(message: &Outgoing) -> Outgoing {
    Outgoing { delay: message.delay.min(DELAY_MAX), ..message.clone() }
}

impl Queue for Counted {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let kind = (Service::Sqs, "SendMessage", message.queue.as_str());
        self.ask(kind, self.store.send(&sooner(message))).await
    }

    /// One message goes alone; several go in batches, a queue after the other.
    async fn send_all(&self, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        if let [message] = messages {
            return vec![self.send(message).await];
        }
        for queue in QueueName::ALL {
            let of_lane: Vec<_> = messages.iter().filter(|message| message.queue == queue).collect();
            for batch in of_lane.chunks(BATCH_MAX) {
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
        self.ask((Service::Sqs, "ReceiveMessage", queue.as_str()), receive).await
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        let kind = (Service::Sqs, "ChangeMessageVisibility", "a message");
        self.ask(kind, self.store.extend(handle, visibility)).await
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        self.meter.deleted();
        self.ask((Service::Sqs, "DeleteMessage", "a message"), self.store.delete(handle)).await
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.store.dead_letters(limit).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.store.redrive(limit).await
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.ask((Service::Sqs, "GetQueueAttributes", queue.as_str()), self.store.depth(queue)).await
    }

    async fn waiting(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.ask((Service::Sqs, "GetQueueAttributes", queue.as_str()), self.store.waiting(queue)).await
    }
}

impl Blobs for Counted {
    async fn put_blob(&self, on: BlobKind, tenant: &TenantId, bytes: Vec<u8>) -> Result<BlobRef, StoreError> {
        let kind = (Service::S3, "PutObject", on.as_str());
        self.ask(kind, self.store.put_blob(on, tenant, bytes)).await
    }

    async fn blob(
        &self,
        on: BlobKind,
        tenant: &TenantId,
        blob: &BlobRef,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        self.ask((Service::S3, "GetObject", on.as_str()), self.store.blob(on, tenant, blob)).await
    }
}
