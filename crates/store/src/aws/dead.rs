//! Messages that were given up, as SQS keeps them: in a queue of their own beside each queue's.
//!
//! SQS shows what is in a queue only by handing it out, so whoever looks hides what they see from others who
//! look at the same time, and gives it back when they are done. A message is put back by sending it anew, then
//! deleting it: it may be doubled on the way, and is never lost.

use std::time::Duration;

use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, Message, MessageSystemAttributeName, QueueAttributeName,
};
use domain::{Millis, Outgoing, QueueName, Timestamp, TraceContext};
use serde_json::Value;

use crate::error::StoreError;
use crate::queue::{DeadLetter, Queue as _};
use crate::trace;

use super::error::Fault;
use super::sqs::{BATCH_MAX, SqsQueue, Taking, attribute, counted, readable, told_trace};

/// How many given-up messages of one queue are looked at: to find the oldest, all must be seen.
const LOOK_MAX: usize = 1_000;

/// For how long they are hidden from others while somebody looks; if that one dies, this is how long the others
/// do not see them.
const LOOK_FOR: Millis = Millis::secs(30);

/// How long a look waits for more. A wait, however short, has SQS ask all of its servers.
const LOOK_WAIT: Duration = Duration::from_secs(1);

const READING: &str = "read dead letters";
const MOVING: &str = "redrive dead letters";

/// A message that was given up, in our hands.
struct Dead {
    queue: QueueName,
    at: Timestamp,
    receipt: String,
    /// `None` if it cannot be read.
    message: Option<Outgoing>,
    /// The work that led to it.
    trace: Option<TraceContext>,
    seen: u32,
}

impl SqsQueue {
    pub(super) async fn list_dead(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        let dead = self.all_dead().await?;
        let letters = self.letters(&dead).await;
        self.give_back(&dead).await;
        let mut letters = letters?;
        letters.sort_by_key(|letter| letter.at);
        letters.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(letters)
    }

    async fn letters(&self, dead: &[Dead]) -> Result<Vec<DeadLetter>, StoreError> {
        let mut letters = Vec::new();
        for queue in QueueName::ALL {
            if dead.iter().any(|dead| dead.queue == queue) {
                let receives = self.receives_max(queue).await?;
                letters.extend(
                    dead.iter().filter(|dead| dead.queue == queue).filter_map(|dead| dead.letter(receives)),
                );
            }
        }
        Ok(letters)
    }

    pub(super) async fn put_back(&self, limit: u32) -> Result<u32, StoreError> {
        let mut dead = self.all_dead().await?;
        dead.sort_by_key(|dead| (dead.message.is_none(), dead.at));
        let readable = dead.iter().filter(|dead| dead.message.is_some()).count();
        let rest = dead.split_off(readable.min(usize::try_from(limit).unwrap_or(usize::MAX)));
        let (moved, failed) = self.move_all(&dead).await;
        self.give_back(&rest).await;
        match failed {
            None => Ok(u32::try_from(moved).unwrap_or(u32::MAX)),
            Some(error) => {
                self.give_back(&dead[moved..]).await;
                Err(error)
            }
        }
    }

    /// Puts back one after the other; says how many, and what kept the next one from it.
    async fn move_all(&self, dead: &[Dead]) -> (usize, Option<StoreError>) {
        for (moved, dead) in dead.iter().enumerate() {
            if let Err(error) = self.move_one(dead).await {
                return (moved, Some(error));
            }
        }
        (dead.len(), None)
    }

    async fn move_one(&self, dead: &Dead) -> Result<(), StoreError> {
        let Dead { queue, receipt, message: Some(message), trace, .. } = dead else { return Ok(()) };
        trace::within_told(*trace, self.send(message)).await?;
        let delete = self.client.delete_message().queue_url(self.dead_url(*queue)).receipt_handle(receipt);
        // If the handle no longer counts it was deleted before its reply was lost, or somebody else has it.
        counted(delete.send().await.map(drop).map_err(Fault::of), MOVING).map(drop)
    }

    /// All that was given up, as far as anybody looks. Who cannot see all of it gives back what they saw: asked
    /// again at once, they would be told that there is nothing.
    async fn all_dead(&self) -> Result<Vec<Dead>, StoreError> {
        let (ingest, decisions, steps) = tokio::join!(
            self.dead_of(QueueName::Ingest),
            self.dead_of(QueueName::Decisions),
            self.dead_of(QueueName::Steps),
        );
        let (mut dead, mut failed) = (Vec::new(), None);
        for (seen, error) in [ingest, decisions, steps] {
            dead.extend(seen);
            failed = failed.or(error);
        }
        match failed {
            None => Ok(dead),
            Some(error) => {
                self.give_back(&dead).await;
                Err(error)
            }
        }
    }

    /// What was given up of one queue, and what kept us from seeing more.
    async fn dead_of(&self, queue: QueueName) -> (Vec<Dead>, Option<StoreError>) {
        let url = self.dead_url(queue);
        let mut dead = Vec::new();
        while dead.len() < LOOK_MAX {
            let taking = Taking { max: BATCH_MAX, visibility: LOOK_FOR, wait: LOOK_WAIT };
            match self.take(&url, taking).await {
                Ok(seen) if seen.is_empty() => break,
                Ok(seen) => dead.extend(seen.iter().filter_map(|message| Dead::of(queue, message))),
                Err(error) => return (dead, Some(error)),
            }
        }
        (dead, None)
    }

    /// Whoever looks next sees them again. If this fails they are hidden for a while longer.
    async fn give_back(&self, dead: &[Dead]) {
        for queue in QueueName::ALL {
            let of_lane: Vec<&Dead> = dead.iter().filter(|dead| dead.queue == queue).collect();
            for batch in of_lane.chunks(BATCH_MAX) {
                let entries =
                    batch.iter().enumerate().filter_map(|(number, dead)| dead.visible(number)).collect();
                let give_back = self.client.change_message_visibility_batch().queue_url(self.dead_url(queue));
                let _ = give_back.set_entries(Some(entries)).send().await;
            }
        }
    }

    /// After how many deliveries a message of `queue` is given up; SQS starts counting anew where it then goes.
    async fn receives_max(&self, queue: QueueName) -> Result<Option<u32>, StoreError> {
        let ask = self.client.get_queue_attributes().queue_url(self.urls.of(queue));
        let answer = ask.attribute_names(QueueAttributeName::RedrivePolicy).send().await;
        let answer = answer.map_err(|error| Fault::of(error).read(READING))?;
        let policy = answer.attributes.unwrap_or_default().remove(&QueueAttributeName::RedrivePolicy);
        let policy: Option<Value> = policy.and_then(|policy| serde_json::from_str(&policy).ok());
        Ok(policy.and_then(|policy| count(&policy["maxReceiveCount"])))
    }

    fn dead_url(&self, queue: QueueName) -> String {
        format!("{}-dead", self.urls.of(queue))
    }
}

/// SQS takes it as a number and as a text, and gives back what it was given.
fn count(value: &Value) -> Option<u32> {
    match value {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64()?.try_into().ok(),
    }
}

impl Dead {
    fn of(queue: QueueName, message: &Message) -> Option<Self> {
        Some(Self {
            queue,
            at: Timestamp(attribute(message, &MessageSystemAttributeName::SentTimestamp).unwrap_or_default()),
            receipt: message.receipt_handle()?.to_owned(),
            message: readable(queue, message),
            trace: told_trace(message),
            seen: attribute(message, &MessageSystemAttributeName::ApproximateReceiveCount)
                .unwrap_or_default(),
        })
    }

    fn letter(&self, receives: Option<u32>) -> Option<DeadLetter> {
        let Outgoing { run, queue, job, .. } = self.message.clone()?;
        Some(DeadLetter { run, queue, job, receives: receives.unwrap_or(self.seen), at: self.at })
    }

    fn visible(&self, number: usize) -> Option<ChangeMessageVisibilityBatchRequestEntry> {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(number.to_string())
            .receipt_handle(&self.receipt)
            .visibility_timeout(0)
            .build()
            .ok()
    }
}
