//! Dead-letter messages: each queue has an SQS dead-letter queue.
//!
//! SQS shows the content of a queue only by delivering it, so listing hides the messages from other readers and
//! makes them visible again afterwards. A redrive sends a message again and then deletes the dead letter: the
//! message may be duplicated, and is never lost.

use std::time::Duration;

use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, Message, MessageSystemAttributeName, QueueAttributeName,
};
use domain::{Millis, Outgoing, QueueName, Timestamp, TraceContext};
use serde_json::Value;

use crate::error::StoreError;
use crate::queue::{DeadLetter, Queue as _};
use crate::trace;

use super::error::AwsError;
use super::sqs::{BATCH_MAX, ReceiveOptions, SqsQueue, attribute, decode, handle_was_valid, trace_context};

/// How many messages of one dead-letter queue are read. Finding the oldest requires reading all of them.
const SCAN_MAX: usize = 1_000;

/// The visibility timeout while messages are read. If the reader dies, they are hidden from others for this long.
const SCAN_VISIBILITY: Millis = Millis::secs(30);

/// The long-polling time. Any wait makes SQS query all of its servers.
const SCAN_WAIT: Duration = Duration::from_secs(1);

const READING: &str = "read dead letters";
const REDRIVING: &str = "redrive dead letters";

/// A received dead-letter message.
struct DeadMessage {
    queue: QueueName,
    at: Timestamp,
    receipt: String,
    /// `None` if the message cannot be decoded.
    message: Option<Outgoing>,
    trace: Option<TraceContext>,
    receives: u32,
}

impl SqsQueue {
    pub(super) async fn list_dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        let dead = self.receive_all().await?;
        let letters = self.to_dead_letters(&dead).await;
        self.make_visible(&dead).await;
        let mut letters = letters?;
        letters.sort_by_key(|letter| letter.at);
        letters.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(letters)
    }

    async fn to_dead_letters(&self, dead: &[DeadMessage]) -> Result<Vec<DeadLetter>, StoreError> {
        let mut letters = Vec::new();
        for queue in QueueName::ALL {
            if dead.iter().any(|dead| dead.queue == queue) {
                let receives = self.max_receive_count(queue).await?;
                let of_queue = dead.iter().filter(|dead| dead.queue == queue);
                letters.extend(of_queue.map(|dead| dead.to_dead_letter(receives)));
            }
        }
        Ok(letters)
    }

    pub(super) async fn redrive_dead_letters(&self, limit: u32) -> Result<u32, StoreError> {
        let mut dead = self.receive_all().await?;
        dead.sort_by_key(|dead| (dead.message.is_none(), dead.at));
        let decodable = dead.iter().filter(|dead| dead.message.is_some()).count();
        let rest = dead.split_off(decodable.min(usize::try_from(limit).unwrap_or(usize::MAX)));
        let (moved, failed) = self.redrive_all(&dead).await;
        self.make_visible(&rest).await;
        match failed {
            None => Ok(u32::try_from(moved).unwrap_or(u32::MAX)),
            Some(error) => {
                self.make_visible(&dead[moved..]).await;
                Err(error)
            }
        }
    }

    /// Redrives the messages in order. Returns the number moved, and the error that stopped it.
    async fn redrive_all(&self, dead: &[DeadMessage]) -> (usize, Option<StoreError>) {
        for (moved, dead) in dead.iter().enumerate() {
            if let Err(error) = self.redrive_one(dead).await {
                return (moved, Some(error));
            }
        }
        (dead.len(), None)
    }

    async fn redrive_one(&self, dead: &DeadMessage) -> Result<(), StoreError> {
        let DeadMessage { queue, receipt, message: Some(message), trace, .. } = dead else { return Ok(()) };
        trace::with_parent(*trace, self.send(message)).await?;
        let delete = self.client.delete_message().queue_url(self.dead_url(*queue)).receipt_handle(receipt);
        // If the handle is no longer valid, the message was deleted before the reply was lost, or another reader
        // has it.
        handle_was_valid(delete.send().await.map(drop).map_err(AwsError::from_sdk), REDRIVING).map(drop)
    }

    /// Receives the messages of all dead-letter queues. If one queue fails, the messages of the others become
    /// visible again, so that an immediate retry finds them.
    async fn receive_all(&self) -> Result<Vec<DeadMessage>, StoreError> {
        let (ingest, decisions, steps) = tokio::join!(
            self.receive_from(QueueName::Ingest),
            self.receive_from(QueueName::Decisions),
            self.receive_from(QueueName::Steps),
        );
        let (mut dead, mut failed) = (Vec::new(), None);
        for (received, error) in [ingest, decisions, steps] {
            dead.extend(received);
            failed = failed.or(error);
        }
        match failed {
            None => Ok(dead),
            Some(error) => {
                self.make_visible(&dead).await;
                Err(error)
            }
        }
    }

    /// Receives the messages of one dead-letter queue, and the error that stopped it.
    async fn receive_from(&self, queue: QueueName) -> (Vec<DeadMessage>, Option<StoreError>) {
        let url = self.dead_url(queue);
        let mut dead = Vec::new();
        while dead.len() < SCAN_MAX {
            let options = ReceiveOptions { max: BATCH_MAX, visibility: SCAN_VISIBILITY, wait: SCAN_WAIT };
            match self.receive_batch(&url, options).await {
                Ok(received) if received.is_empty() => break,
                Ok(received) => {
                    dead.extend(received.iter().filter_map(|message| DeadMessage::of(queue, message)));
                }
                Err(error) => return (dead, Some(error)),
            }
        }
        (dead, None)
    }

    /// Makes messages visible again. If this fails, they stay hidden until the visibility timeout ends.
    async fn make_visible(&self, dead: &[DeadMessage]) {
        for queue in QueueName::ALL {
            let of_queue: Vec<&DeadMessage> = dead.iter().filter(|dead| dead.queue == queue).collect();
            for batch in of_queue.chunks(BATCH_MAX) {
                let entries = batch
                    .iter()
                    .enumerate()
                    .filter_map(|(number, dead)| dead.visibility_entry(number))
                    .collect();
                let request = self.client.change_message_visibility_batch().queue_url(self.dead_url(queue));
                let _ = request.set_entries(Some(entries)).send().await;
            }
        }
    }

    /// The `maxReceiveCount` of `queue`. SQS resets the receive count when it moves a message to the dead-letter
    /// queue.
    async fn max_receive_count(&self, queue: QueueName) -> Result<Option<u32>, StoreError> {
        let request = self.client.get_queue_attributes().queue_url(self.urls.get(queue));
        let response = request.attribute_names(QueueAttributeName::RedrivePolicy).send().await;
        let response = response.map_err(|error| AwsError::from_sdk(error).into_read_error(READING))?;
        let policy = response.attributes.unwrap_or_default().remove(&QueueAttributeName::RedrivePolicy);
        let policy: Option<Value> = policy.and_then(|policy| serde_json::from_str(&policy).ok());
        Ok(policy.and_then(|policy| parse_count(&policy["maxReceiveCount"])))
    }

    fn dead_url(&self, queue: QueueName) -> String {
        format!("{}-dead", self.urls.get(queue))
    }
}

/// SQS accepts a number or a string here, and returns it as it was given.
fn parse_count(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64()?.try_into().ok(),
    }
}

impl DeadMessage {
    fn of(queue: QueueName, message: &Message) -> Option<Self> {
        Some(Self {
            queue,
            at: Timestamp(attribute(message, &MessageSystemAttributeName::SentTimestamp).unwrap_or_default()),
            receipt: message.receipt_handle()?.to_owned(),
            message: decode(queue, message),
            trace: trace_context(message),
            receives: attribute(message, &MessageSystemAttributeName::ApproximateReceiveCount)
                .unwrap_or_default(),
        })
    }

    fn to_dead_letter(&self, receives: Option<u32>) -> DeadLetter {
        let message = self.message.clone().map(|Outgoing { run, job, .. }| (run, job));
        let receives = receives.unwrap_or(self.receives);
        DeadLetter { message, queue: self.queue, receives, at: self.at }
    }

    fn visibility_entry(&self, number: usize) -> Option<ChangeMessageVisibilityBatchRequestEntry> {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(number.to_string())
            .receipt_handle(&self.receipt)
            .visibility_timeout(0)
            .build()
            .ok()
    }
}
