//! The queues on SQS: a standard queue and a dead-letter queue for each [`QueueName`].
//!
//! The message group id is the tenant, so that SQS fair queues share a queue between tenants: the backlog of one
//! tenant does not delay the others. SQS counts in whole seconds: shorter times are rounded up, and times beyond
//! the SQS maximum are cut. A message that arrives early finds nothing to do, and the due index covers longer
//! delays.

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
use crate::{jitter, trace};

use super::connect::ATTEMPT_TIMEOUT;
use super::error::{AwsError, Class};
use super::message;

/// The maximum number of messages of one SQS request.
pub(super) const BATCH_MAX: usize = 10;

/// The maximum visibility timeout of SQS.
const VISIBILITY_MAX: Millis = Millis::hours(12);

/// The maximum long-polling time of SQS.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How often failed entries of a batch are sent.
const SENDS_MAX: u32 = 4;

/// The approximate delay before the first retry. The delay grows linearly.
const SEND_RETRY_DELAY: Duration = Duration::from_millis(20);

const SENDING: &str = "send a message";
const RECEIVING: &str = "receive messages";

/// The URLs of the queues. The dead-letter queue of each has the same URL with `-dead` appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUrls {
    /// Inbound events.
    pub ingest: String,
    /// Approval decisions.
    pub decisions: String,
    /// Runs to advance.
    pub steps: String,
}

impl QueueUrls {
    pub(super) fn get(&self, queue: QueueName) -> &str {
        match queue {
            QueueName::Ingest => &self.ingest,
            QueueName::Decisions => &self.decisions,
            QueueName::Steps => &self.steps,
        }
    }
}

#[derive(Debug, Clone)]
pub struct SqsQueue {
    pub(super) client: Client,
    pub(super) urls: Arc<QueueUrls>,
}

impl SqsQueue {
    pub fn new(client: Client, urls: QueueUrls) -> Self {
        Self { client, urls: Arc::new(urls) }
    }

    /// Receives messages of the queue at `url`.
    pub(super) async fn receive_batch(
        &self,
        url: &str,
        options: ReceiveOptions,
    ) -> Result<Vec<Message>, StoreError> {
        let ReceiveOptions { max, visibility, wait } = options;
        let wait = wait.min(WAIT_MAX);
        // The timeout includes the long-polling time.
        let timeout = wait + ATTEMPT_TIMEOUT;
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(timeout);
        let timeouts = timeouts.operation_timeout(timeout + ATTEMPT_TIMEOUT).build();
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
            .config_override(Config::builder().timeout_config(timeouts))
            .send()
            .await;
        let received = received.map_err(|error| AwsError::from_sdk(error).into_read_error(RECEIVING))?;
        Ok(received.messages.unwrap_or_default())
    }

    /// Sends the pending messages of a batch once.
    async fn try_batch(&self, queue: QueueName, batch: &mut Batch<'_>) -> Result<(), StoreError> {
        let entries = batch.entries()?;
        let send =
            self.client.send_message_batch().queue_url(self.urls.get(queue)).set_entries(Some(entries));
        let response =
            send.send().await.map_err(|error| AwsError::from_sdk(error).into_write_error(SENDING))?;
        batch.resolve(response.failed());
        Ok(())
    }

    /// Sends a batch and retries its failed entries.
    async fn send_batch(
        &self,
        queue: QueueName,
        pending: Vec<NumberedMessage<'_>>,
    ) -> Vec<(usize, SendResult)> {
        let mut batch = Batch { pending, results: Vec::new() };
        for round in 1..=SENDS_MAX {
            if let Err(error) = self.try_batch(queue, &mut batch).await {
                return batch.finish_with_error(&error);
            }
            if batch.pending.is_empty() {
                break;
            }
            tokio::time::sleep(batch.retry_delay(round)).await;
        }
        batch.finish_with_error(&StoreError::Busy { doing: SENDING })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ReceiveOptions {
    pub(super) max: usize,
    pub(super) visibility: Millis,
    pub(super) wait: Duration,
}

type SendResult = Result<(), StoreError>;
type NumberedMessage<'m> = (usize, &'m Outgoing);

/// Messages that are sent together, and the results of those that are not pending any more.
struct Batch<'m> {
    pending: Vec<NumberedMessage<'m>>,
    results: Vec<(usize, SendResult)>,
}

impl Batch<'_> {
    fn entries(&self) -> Result<Vec<SendMessageBatchRequestEntry>, StoreError> {
        self.pending.iter().map(|(number, message)| entry(*number, message)).collect()
    }

    /// Records the result of each message. Entries that failed on the SQS side stay pending.
    fn resolve(&mut self, failed: &[BatchResultErrorEntry]) {
        let mut retry = Vec::new();
        for (number, message) in std::mem::take(&mut self.pending) {
            match failed.iter().find(|entry| entry.id == number.to_string()) {
                None => self.results.push((number, Ok(()))),
                Some(entry) if entry.sender_fault => {
                    let reason = format!("{}: {}", entry.code, entry.message().unwrap_or("no reason given"));
                    self.results.push((number, Err(StoreError::broken(SENDING, reason))));
                }
                Some(_) => retry.push((number, message)),
            }
        }
        self.pending = retry;
    }

    /// The delay before a retry. Depends on the run, so that other senders retry at other times.
    fn retry_delay(&self, round: u32) -> Duration {
        let caller = self.pending.first().map(|(_, message)| message.run.to_string()).unwrap_or_default();
        jitter::around(SEND_RETRY_DELAY * round, &caller, round)
    }

    fn finish_with_error(mut self, error: &StoreError) -> Vec<(usize, SendResult)> {
        let failed = self.pending.iter().map(|(number, _)| (*number, Err(copy_error(error))));
        self.results.extend(failed);
        self.results
    }
}

/// A copy of the error, for another message of the same request.
fn copy_error(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy { doing } => StoreError::Busy { doing },
        StoreError::Unknown { doing } => StoreError::Unknown { doing },
        StoreError::Broken { doing, source } => StoreError::broken(doing, source.to_string()),
    }
}

fn entry(number: usize, message: &Outgoing) -> Result<SendMessageBatchRequestEntry, StoreError> {
    SendMessageBatchRequestEntry::builder()
        .id(number.to_string())
        .message_body(encode(message)?)
        .message_group_id(message.run.tenant.as_str())
        .message_attributes(TraceContext::HEADER, traceparent(message)?)
        .delay_seconds(seconds(message.delay, DELAY_MAX))
        .build()
        .map_err(|error| StoreError::broken(SENDING, error))
}

/// The `traceparent` attribute of `message`.
fn traceparent(message: &Outgoing) -> Result<MessageAttributeValue, StoreError> {
    let context = trace::context_for(&message.run).to_string();
    let value = MessageAttributeValue::builder().data_type("String").string_value(context).build();
    value.map_err(|error| StoreError::broken(SENDING, error))
}

fn encode(message: &Outgoing) -> Result<String, StoreError> {
    message::encode(message).map_err(|error| StoreError::broken(SENDING, error))
}

impl Queue for SqsQueue {
    async fn send(&self, message: &Outgoing) -> Result<(), StoreError> {
        let send = self
            .client
            .send_message()
            .queue_url(self.urls.get(message.queue))
            .message_body(encode(message)?)
            .message_group_id(message.run.tenant.as_str())
            .message_attributes(TraceContext::HEADER, traceparent(message)?)
            .delay_seconds(seconds(message.delay, DELAY_MAX));
        send.send().await.map_err(|error| AwsError::from_sdk(error).into_write_error(SENDING))?;
        Ok(())
    }

    async fn send_all(&self, messages: &[Outgoing]) -> Vec<Result<(), StoreError>> {
        let mut sent: Vec<SendResult> = Vec::new();
        if let [message] = messages {
            sent.push(self.send(message).await);
            return sent;
        }
        let mut results = Vec::with_capacity(messages.len());
        for queue in QueueName::ALL {
            let of_queue: Vec<_> =
                messages.iter().enumerate().filter(|(_, message)| message.queue == queue).collect();
            for batch in of_queue.chunks(BATCH_MAX) {
                results.extend(self.send_batch(queue, batch.to_vec()).await);
            }
        }
        results.sort_by_key(|(number, _)| *number);
        sent.extend(results.into_iter().map(|(_, sent)| sent));
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
        let received =
            self.receive_batch(self.urls.get(queue), ReceiveOptions { max, visibility, wait }).await?;
        Ok(received.iter().filter_map(|message| delivery(queue, message)).collect())
    }

    async fn extend(&self, handle: &Handle, visibility: Millis) -> Result<bool, StoreError> {
        let Some((queue, receipt)) = parse_handle(handle) else { return Ok(false) };
        let extend = self
            .client
            .change_message_visibility()
            .queue_url(self.urls.get(queue))
            .receipt_handle(receipt)
            .visibility_timeout(seconds(visibility, VISIBILITY_MAX));
        handle_was_valid(extend.send().await.map(drop).map_err(AwsError::from_sdk), "extend a message")
    }

    async fn delete(&self, handle: &Handle) -> Result<bool, StoreError> {
        let Some((queue, receipt)) = parse_handle(handle) else { return Ok(false) };
        let delete = self.client.delete_message().queue_url(self.urls.get(queue)).receipt_handle(receipt);
        handle_was_valid(delete.send().await.map(drop).map_err(AwsError::from_sdk), "delete a message")
    }

    async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        self.list_dead_letters(limit).await
    }

    async fn redrive(&self, limit: u32) -> Result<u32, StoreError> {
        self.redrive_dead_letters(limit).await
    }

    async fn depth(&self, queue: QueueName) -> Result<u64, StoreError> {
        let counts = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        self.count(queue, &counts).await
    }

    async fn visible(&self, queue: QueueName) -> Result<u64, StoreError> {
        self.count(queue, &[QueueAttributeName::ApproximateNumberOfMessages]).await
    }
}

impl SqsQueue {
    /// The sum of these queue attributes.
    async fn count(&self, queue: QueueName, counts: &[QueueAttributeName]) -> Result<u64, StoreError> {
        let request = self.client.get_queue_attributes().queue_url(self.urls.get(queue));
        let response = request.set_attribute_names(Some(counts.to_vec())).send().await;
        let response =
            response.map_err(|error| AwsError::from_sdk(error).into_read_error("count messages"))?;
        let attributes = response.attributes.unwrap_or_default();
        Ok(counts.iter().filter_map(|name| attributes.get(name)?.parse::<u64>().ok()).sum())
    }
}

/// Whether the receipt handle was still valid. Durations are cut to the SQS limits, so an invalid parameter can
/// only be the handle.
pub(super) fn handle_was_valid(
    result: Result<(), AwsError>,
    doing: &'static str,
) -> Result<bool, StoreError> {
    let bad_handle =
        |error: &AwsError| error.is("InvalidParameterValue") || error.is("InvalidParameterValueException");
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.class == Class::Superseded || bad_handle(&error) => Ok(false),
        Err(error) => Err(error.into_write_error(doing)),
    }
}

fn delivery(queue: QueueName, received: &Message) -> Option<Delivery> {
    let message = decode(queue, received)?;
    let receipt = received.receipt_handle()?;
    let count = attribute(received, &MessageSystemAttributeName::ApproximateReceiveCount).unwrap_or(1);
    let handle = Handle::new(format!("{queue}:{receipt}"), count);
    let trace = trace_context(received).unwrap_or_else(|| TraceContext::of_run(&message.run));
    Some(Delivery { run: message.run, queue, job: message.job, trace, handle })
}

/// The trace context of `received`. A context that cannot be parsed is ignored.
pub(super) fn trace_context(received: &Message) -> Option<TraceContext> {
    received.message_attributes()?.get(TraceContext::HEADER)?.string_value()?.parse().ok()
}

/// Decodes `received`. A message that cannot be decoded is not deleted, so that SQS moves it to the dead-letter
/// queue, where an operator can inspect it.
pub(super) fn decode(queue: QueueName, received: &Message) -> Option<Outgoing> {
    match message::decode(queue, received.body().unwrap_or_default()) {
        Ok(message) => Some(message),
        Err(error) => {
            let id = received.message_id().unwrap_or_default();
            tracing::error!(
                event = "message_undecodable", %queue, id, %error,
                "message cannot be decoded; SQS moves it to the dead-letter queue"
            );
            None
        }
    }
}

/// The numeric system attribute `name`.
pub(super) fn attribute<N: std::str::FromStr>(
    message: &Message,
    name: &MessageSystemAttributeName,
) -> Option<N> {
    message.attributes()?.get(name)?.parse().ok()
}

/// The queue and the SQS receipt handle; `None` if this store did not issue the handle.
fn parse_handle(handle: &Handle) -> Option<(QueueName, &str)> {
    let (queue, receipt) = handle.text().split_once(':')?;
    Some((queue.parse().ok()?, receipt))
}

/// A duration in whole seconds, rounded up, at most `max`.
pub(super) fn seconds(length: Millis, max: Millis) -> i32 {
    i32::try_from(length.0.min(max.0).div_ceil(1000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use domain::{Job, RunKey};

    use super::*;

    #[test]
    fn durations_are_rounded_up_and_limited() {
        for (length, expected) in [
            (Millis(0), 0),
            (Millis(1), 1),
            (Millis(1_000), 1),
            (Millis(1_001), 2),
            (Millis::mins(15), 900),
            (Millis::mins(16), 900),
            (Millis(u64::MAX), 900),
        ] {
            assert_eq!(seconds(length, DELAY_MAX), expected, "{length:?}");
        }
        assert_eq!(seconds(Millis::hours(13), VISIBILITY_MAX), 43_200);
    }

    #[test]
    fn batches_are_retried_at_different_times() {
        let delays = |run: &str| {
            let run = RunKey { tenant: "acme".parse().unwrap(), run: run.parse().unwrap() };
            let message = Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) };
            let batch = Batch { pending: vec![(0, &message)], results: Vec::new() };
            (1..=SENDS_MAX).map(|round| batch.retry_delay(round)).collect::<Vec<_>>()
        };
        assert_ne!(delays("one"), delays("two"));
        assert_eq!(delays("one"), delays("one"));
    }

    #[test]
    fn handle_names_its_queue() {
        let handle = Handle::new("decisions:AQEB:x==", 3);
        assert_eq!(parse_handle(&handle), Some((QueueName::Decisions, "AQEB:x==")));
        for foreign in ["17", "fast:AQEB", ""] {
            assert_eq!(parse_handle(&Handle::new(foreign, 1)), None);
        }
    }

    #[test]
    fn outdated_handle_is_not_an_error() {
        for code in [
            "ReceiptHandleIsInvalid",
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "AWS.SimpleQueueService.MessageNotInflight",
            "MessageNotInflight",
        ] {
            assert!(matches!(handle_was_valid(Err(AwsError::of_code(code)), "delete"), Ok(false)), "{code}");
        }
        let throttled = handle_was_valid(Err(AwsError::of_code("RequestThrottled")), "delete");
        assert!(matches!(throttled, Err(StoreError::Busy { .. })));
    }
}
