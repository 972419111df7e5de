//! The queue: messages that ask a worker to do a job about a run.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::{Job, Millis, Outgoing, QueueName, RunKey, TenantId, Timestamp, TraceContext};

use crate::error::StoreError;

/// A message that was received this often without being deleted moves to the dead-letter queue.
pub const RECEIVES_MAX: u32 = 20;

/// The receipt handle of one delivery. A message that is delivered again gets a new handle, and the old one becomes
/// invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    text: Arc<str>,
    receive: u32,
}

impl Handle {
    /// A handle with the queue's own text for the delivery, which is the `receive`th one of the message.
    pub fn new(text: impl Into<Arc<str>>, receive: u32) -> Self {
        Self { text: text.into(), receive }
    }

    /// The queue's own text for the delivery.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The receive count of the message, this delivery included.
    pub fn receive(&self) -> u32 {
        self.receive
    }
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The run that the message is about.
    pub run: RunKey,
    /// The queue that delivered the message.
    pub queue: QueueName,
    /// The job to do.
    pub job: Job,
    /// The trace context of the sender.
    pub trace: TraceContext,
    /// The handle with which to extend or delete the message.
    pub handle: Handle,
}

impl Delivery {
    /// The receive count of the message, this delivery included.
    pub fn receives(&self) -> u32 {
        self.handle.receive
    }
}

/// A message of the dead-letter queue: it was received [`RECEIVES_MAX`] times without being deleted, or it cannot be
/// decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The run that the message is about, and the job that was not done; `None` if it cannot be decoded.
    pub message: Option<(RunKey, Job)>,
    /// The queue that the message was sent to.
    pub queue: QueueName,
    /// The receive count.
    pub receives: u32,
    /// When the message moved to the dead-letter queue. When it was sent, if the queue does not report that.
    pub at: Timestamp,
}

impl DeadLetter {
    /// The run that the message is about.
    pub fn run(&self) -> Option<&RunKey> {
        self.message.as_ref().map(|(run, _)| run)
    }

    /// The job that was not done.
    pub fn job(&self) -> Option<&Job> {
        self.message.as_ref().map(|(_, job)| job)
    }
}

/// Messages with at-least-once delivery and no guaranteed order. Each message belongs to one queue, and a backlog
/// in one queue does not delay another.
///
/// A received message is invisible for its visibility timeout and becomes visible again if it is not deleted. The
/// visibility timeout only reduces duplicate work: the lease on the run decides which worker may act. A queue may
/// count in whole seconds; it then rounds up.
pub trait Queue {
    /// Sends a message, which becomes visible after its delay. The message carries the current trace context
    /// ([`crate::trace`]). The messages of a commit do so too.
    fn send(&self, message: &Outgoing) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Sends several messages, in batches where that is cheaper. Returns one result per message, in order.
    fn send_all(&self, messages: &[Outgoing]) -> impl Future<Output = Vec<Result<(), StoreError>>> + Send
    where
        Self: Sync,
    {
        async move {
            let mut sent = Vec::with_capacity(messages.len());
            for message in messages {
                sent.push(self.send(message).await);
            }
            sent
        }
    }

    /// Receives up to `max` messages of `queue` with the visibility timeout `visibility`. Waits up to `wait` for
    /// the first message (long polling).
    fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Delivery>, StoreError>> + Send;

    /// Receives up to `max` visible messages of `queue` that are not about a tenant in `except`, without waiting. `None`
    /// if the queue cannot select messages by tenant.
    fn receive_except(
        &self,
        _queue: QueueName,
        _except: &BTreeSet<TenantId>,
        _max: usize,
        _visibility: Millis,
    ) -> impl Future<Output = Result<Option<Vec<Delivery>>, StoreError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Sets the visibility timeout of a received message to `visibility` from now on. `false` if the queue reports
    /// that the handle is no longer valid. SQS does not always report that, so no caller may rely on it.
    fn extend(
        &self,
        handle: &Handle,
        visibility: Millis,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Deletes a received message. `false` if the queue reports that the handle is no longer valid; the message is
    /// then delivered again. SQS returns success for a message that is already deleted, and may do so for an
    /// outdated handle.
    fn delete(&self, handle: &Handle) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// The messages of all dead-letter queues, oldest first.
    fn dead_letters(&self, limit: u32) -> impl Future<Output = Result<Vec<DeadLetter>, StoreError>> + Send;

    /// Moves dead-letter messages back to their queues, oldest first. Returns the number of messages moved.
    fn redrive(&self, limit: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;

    /// The number of messages in `queue`: visible, in flight and delayed. May be approximate.
    fn depth(&self, queue: QueueName) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// The number of visible messages in `queue`. May be approximate.
    fn visible(&self, queue: QueueName) -> impl Future<Output = Result<u64, StoreError>> + Send;
}
