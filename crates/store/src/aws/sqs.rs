//! The queue on SQS: a standard queue for each queue, and one beside it for what was given up.
//!
//! The tenant is the message group, so that SQS shares a queue fairly among tenants: a tenant with a backlog waits
//! behind itself. SQS counts in whole seconds; what is shorter is rounded up, what is longer than it takes is
//! cut, since a delivery that comes early finds nothing to do and the due index stands behind a longer delay.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Config;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, Message, MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName,
    SendMessageBatchRequestEntry,
};
use domain::draft::DELAY_MAX;
use domain::{Millis, Outgoing, QueueName, TraceContext};

use crate::error::StoreError;
use crate::queue::{DeadLetter, Delivery, Handle, Queue};
use crate::{spread, trace};

use super::connect::TRY_FOR;
use super::error::{Class, Fault};
use super::message;

/// What SQS takes or gives in one request.
pub(super) const BATCH_MAX: usize = 10;

/// For how long SQS hides a message at most.
const VISIBILITY_MAX: Millis = Millis::hours(12);

/// How long SQS lets a receiver wait at most.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How often what SQS did not take of a batch is sent again.
const SENDS_MAX: u32 = 4;

/// How long about the first of the waits between is; each further one is longer by as much.
const SEND_AFTER: Duration = Duration::from_millis(20);

const SENDING: &str = "send a message";
const RECEIVING: &str = "receive messages";

/// Where the queue of each queue is. What was given up is in a queue of the same name with `-dead` after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUrls {
    /// What comes in.
    pub ingest: String,
    /// What people decided.
    pub decisions: String,
    /// The work of runs.
    pub steps: String,
}

impl QueueUrls {
    pub(super) fn of(&self, queue: QueueName) -> &str {
        match queue {
            QueueName::Ingest => &self.ingest,
            QueueName::Decisions => &self.decisions,
            QueueName::Steps => &self.steps,
        }
    }
}

/// The queue on SQS.
#[derive(Debug, Clone)]
pub struct SqsQueue {
    pub(super) client: Client,
    pub(super) urls: Arc<QueueUrls>,
}

impl SqsQueue {
    /// The queue at these URLs.
    pub fn new(client: Client, urls: QueueUrls) -> Self {
        Self { client, urls: Arc::new(urls) }
    }

    /// What is in the queue at `url`, at most `max`, hidden from others from now on.
    pub(super) async fn take(&self, url: &str, taking: Taking) -> Result<Vec<Message>, StoreError> {
        let Taking { max, visibility, wait } = taking;
        let wait = wait.min(WAIT_MAX);
        // The answer may come as late as the wait allows; that is not a line that broke.
        let answers_in = wait + TRY_FOR;
        let patient = TimeoutConfig::builder().operation_attempt_timeout(answers_in);
        let patient = patient.operation_timeout(answers_in + TRY_FOR).build();
        let received = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(i32::try_from(max.min(BATCH_MAX)).unwrap_or(1))
            .visibility_timeout(seconds(visibility, VISIBILITY_MAX))
            .wait_time_seconds(i32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or_default())
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
            .message_attribute_names(TraceContext::HEADER)
            .customize()
            .config_override(Config::builder().timeout_config(patient))
            .send()
            .await;
        let received = received.map_err(|error| Fault::of(error).read(RECEIVING))?;
        Ok(received.messages.unwrap_or_default())
    }

    /// Sends what is left of a batch once.
    async fn try_batch(&self, queue: QueueName, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let entries = batch.entries()?;
        let send = self.client.send_message_batch().queue_url(self.urls.of(queue)).set_entries(Some(entries));
        let answer = send.send().await.map_err(|error| Fault::of(error).write(SENDING))?;
        batch.settle(answer.failed());
        Ok(())
    }

    /// Sends a batch, and again what SQS did not take of it.
    async fn send_batch(&self, queue: QueueName, left: Vec<Numbered<'_>>) -> Vec<(usize, Sent)> {
        let mut batch = Batch { left, settled: Vec::new() };
        for round in 1..=SENDS_MAX {
            if let Err(error) = self.try_batch(queue, &mut batch).await {
                return batch.given_up(&error);
            }
            if batch.left.is_empty() {
                break;
            }
            tokio::time::sleep(batch.rest_after(round)).await;
        }
        batch.given_up(&StoreError::Busy { doing: SENDING })
    }
}

/// How messages are taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taking {
    pub(super) max: usize,
    pub(super) visibility: Millis,
    pub(super) wait: Duration,
}

type Sent = Result<(), StoreError>;
type Numbered<'m> = (usize, &'m Outgoing);

/// Messages that are sent together, and what became of those that are not left.
struct Batch<'m> {
    left: Vec<Numbered<'m>>,
    settled: Vec<(usize, Sent)>,
}

impl Batch<'_> {
    fn entries(&self) -> Result<Vec<SendMessageBatchRequestEntry>, StoreError> {
        self.left.iter().map(|(number, message)| entry(*number, message)).collect()
    }

    /// All are sent but those that `failed`, and of these some may be sent again.
    fn settle(&mut self, failed: &[BatchResultErrorEntry]) {
        let mut again = Vec::new();
        for (number, message) in std::mem::take(&mut self.left) {
            match failed.iter().find(|entry| entry.id == number.to_string()) {
                None => self.settled.push((number, Ok(()))),
                Some(entry) if entry.sender_fault => {
                    let why = format!("{}: {}", entry.code, entry.message().unwrap_or("no reason given"));
                    self.settled.push((number, Err(StoreError::broken(SENDING, why))));
                }
                Some(_) => again.push((number, message)),
            }
        }
        self.left = again;
    }

    /// How long what is left waits before it is sent again. What others send is about other runs, and waits for another
    /// while.
    fn rest_after(&self, round: u32) -> Duration {
        let who = self.left.first().map(|(_, message)| message.run.to_string()).unwrap_or_default();
        spread::around(SEND_AFTER * round, &who, round)
    }

    fn given_up(mut self, why: &StoreError) -> Vec<(usize, Sent)> {
        let left = self.left.iter().map(|(number, _)| (*number, Err(same(why))));
        self.settled.extend(left);
        self.settled
    }
}

/// The same error once more, for another message of the same request.
fn same(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy { doing } => StoreError::Busy { doing },
        StoreError::Unknown { doing } => StoreError::Unknown { doing },
        StoreError::Broken { doing, source } => StoreError::broken(doing, source.to_string()),
    }
}

fn entry(number: usize, message: &Outgoing) -> Result<SendMessageBatchRequestEntry, StoreError> {
    SendMessageBatchRequestEntry::builder()
        .id(number.to_string())
        .message_body(words(message)?)
        .message_group_id(message.run.tenant.as_str())
        .message_attributes(TraceContext::HEADER, traceparent(message)?)
        .delay_seconds(seconds(message.delay, DELAY_MAX))
        .build()
        .map_err(|error| StoreError::broken(SENDING, error))
}

/// The trace context that `message` is sent in.
fn traceparent(message: &Outgoing) -> Result<MessageAttributeValue, StoreError> {
    let context = trace::context_for(&message.run).to_string();
    let value = MessageAttributeValue::builder().data_type("String").string_value(context).build();
    value.map_err(|error| StoreError::broken(SENDING, error))
}

fn words(message: &Outgoing) -> Result<String, StoreError> {
    message::write(message).map_err(|error| StoreError::broken(SENDING, error))
}

impl Queue for SqsQueue {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let send = self
            .client
            .send_message()
            .queue_url(self.urls.of(message.queue))
            .message_body(words(message)?)
            .message_group_id(message.run.tenant.as_str())
            .message_attributes(TraceContext::HEADER, traceparent(message)?)
            .delay_seconds(seconds(message.delay, DELAY_MAX));
        send.send().await.map_err(|error| Fault::of(error).write(SENDING))?;
        Ok(())
    }

    async fn send_all(&self, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        let mut sent: Vec<Sent> = Vec::new();
        if let [message] = messages {
            sent.push(self.send(message).await);
            return sent;
        }
        let mut settled = Vec::with_capacity(messages.len());
        for queue in QueueName::ALL {
            let of_lane: Vec<_> =
                messages.iter().enumerate().filter(|(_, message)| message.queue == queue).collect();
            for batch in of_lane.chunks(BATCH_MAX) {
                settled.extend(self.send_batch(queue, batch.to_vec()).await);
            }
        }
        settled.sort_by_key(|(number, _)| *number);
        sent.extend(settled.into_iter().map(|(_, sent)| sent));
        sent
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let received = self.take(self.urls.of(queue), Taking { max, visibility, wait }).await?;
        Ok(received.iter().filter_map(|message| delivery(queue, message)).collect())
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        let Some((queue, receipt)) = opened(handle) else { return Ok(false) };
        let extend = self
            .client
            .change_message_visibility()
            .queue_url(self.urls.of(queue))
            .receipt_handle(receipt)
            .visibility_timeout(seconds(visibility, VISIBILITY_MAX));
        counted(extend.send().await.map(drop).map_err(Fault::of), "extend a message")
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        let Some((queue, receipt)) = opened(handle) else { return Ok(false) };
        let delete = self.client.delete_message().queue_url(self.urls.of(queue)).receipt_handle(receipt);
        counted(delete.send().await.map(drop).map_err(Fault::of), "delete a message")
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.list_dead(limit).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.put_back(limit).await
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        let counts = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        self.count(queue, &counts).await
    }

    async fn waiting(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.count(queue, &[QueueAttributeName::ApproximateNumberOfMessages]).await
    }
}

impl SqsQueue {
    /// The sum of these counts.
    async fn count(&self, queue: QueueName, counts: &[QueueAttributeName]) -> Result<u64, StoreError> {
        let ask = self.client.get_queue_attributes().queue_url(self.urls.of(queue));
        let answer = ask.set_attribute_names(Some(counts.to_vec())).send().await;
        let answer = answer.map_err(|error| Fault::of(error).read("count messages"))?;
        let attributes = answer.attributes.unwrap_or_default();
        Ok(counts.iter().filter_map(|name| attributes.get(name)?.parse::<u64>().ok()).sum())
    }
}

/// Whether a delivery still counted when something was done with it. Lengths of time are cut to what SQS takes,
/// so a parameter that it does not like can only be the handle.
pub(super) fn counted(done: Result<(), Fault>, doing: &'static str) -> Result<bool, StoreError> {
    let bad_handle =
        |fault: &Fault| fault.is("InvalidParameterValue") || fault.is("InvalidParameterValueException");
    match done {
        Ok(()) => Ok(true),
        Err(fault) if fault.class == Class::Superseded || bad_handle(&fault) => Ok(false),
        Err(fault) => Err(fault.write(doing)),
    }
}

fn delivery(queue: QueueName, received: &Message) -> Option<Delivery> {
    let read = readable(queue, received)?;
    let receipt = received.receipt_handle()?;
    let count = attribute(received, &MessageSystemAttributeName::ApproximateReceiveCount).unwrap_or(1);
    let handle = Handle::new(format!("{queue}:{receipt}"), count);
    let trace = told_trace(received).unwrap_or_else(|| TraceContext::of_run(&read.run));
    Some(Delivery { run: read.run, queue, job: read.job, trace, handle })
}

/// The work that led to `received`; what cannot be read is worth no more than none.
pub(super) fn told_trace(received: &Message) -> Option<TraceContext> {
    received.message_attributes()?.get(TraceContext::HEADER)?.string_value()?.parse().ok()
}

/// What `received` says. What cannot be read is left alone: it comes again until it is put aside, and then a
/// person looks at it.
pub(super) fn readable(queue: QueueName, received: &Message) -> Option<Outgoing> {
    match message::read(queue, received.body().unwrap_or_default()) {
        Ok(message) => Some(message),
        Err(error) => {
            let id = received.message_id().unwrap_or_default();
            tracing::error!(%queue, id, %error, "a message cannot be read, and is left alone");
            None
        }
    }
}

/// The number under `name`.
pub(super) fn attribute<N: std::str::FromStr>(
    message: &Message,
    name: &MessageSystemAttributeName,
) -> Option<N> {
    message.attributes()?.get(name)?.parse().ok()
}

/// The queue and SQS's own name for a delivery; `None` if it is not one of ours.
fn opened(handle: &Handle) -> Option<(QueueName, &str)> {
    let (queue, receipt) = handle.text().split_once(':')?;
    Some((queue.parse().ok()?, receipt))
}

/// A length of time as SQS counts it: in whole seconds, never shorter than asked for, never longer than `max`.
pub(super) fn seconds(length: Millis, max: Millis) -> i32 {
    i32::try_from(length.0.min(max.0).div_ceil(1000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use domain::{Job, RunKey};

    use super::*;

    #[test]
    fn a_length_of_time_is_rounded_up_and_cut() {
        for (length, seconds_of_it) in [
            (Millis(0), 0),
            (Millis(1), 1),
            (Millis(1_000), 1),
            (Millis(1_001), 2),
            (Millis::mins(15), 900),
            (Millis::mins(16), 900),
            (Millis(u64::MAX), 900),
        ] {
            assert_eq!(seconds(length, DELAY_MAX), seconds_of_it, "{length:?}");
        }
        assert_eq!(seconds(Millis::hours(13), VISIBILITY_MAX), 43_200);
    }

    #[test]
    fn two_batches_that_sqs_did_not_take_are_not_sent_again_at_the_same_time() {
        let waits = |run: &str| {
            let run = RunKey { tenant: "acme".parse().unwrap(), run: run.parse().unwrap() };
            let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
            let batch = Batch { left: vec![(0, &message)], settled: Vec::new() };
            (1..=SENDS_MAX).map(|round| batch.rest_after(round)).collect::<Vec<_>>()
        };
        assert_ne!(waits("one"), waits("two"));
        assert_eq!(waits("one"), waits("one"));
    }

    #[test]
    fn a_handle_knows_its_lane() {
        let handle = Handle::new("decisions:AQEB:x==", 3);
        assert_eq!(opened(&handle), Some((QueueName::Decisions, "AQEB:x==")));
        for strange in ["17", "fast:AQEB", ""] {
            assert_eq!(opened(&Handle::new(strange, 1)), None);
        }
    }

    #[test]
    fn a_delivery_that_no_longer_counts_is_not_an_error() {
        for code in [
            "ReceiptHandleIsInvalid",
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "AWS.SimpleQueueService.MessageNotInflight",
            "MessageNotInflight",
        ] {
            assert!(matches!(counted(Err(Fault::of_code(code)), "delete"), Ok(false)), "{code}");
        }
        let throttled = counted(Err(Fault::of_code("RequestThrottled")), "delete");
        assert!(matches!(throttled, Err(StoreError::Busy { .. })));
    }
}
