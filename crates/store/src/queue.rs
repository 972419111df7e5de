//! The queue: messages that say *this run has something to do now*, or what else is to be done about it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::{Job, Millis, Outgoing, QueueName, RunKey, Timestamp, TraceContext};

use crate::error::StoreError;

/// A message that was delivered this often without being deleted is put aside for a person.
pub const RECEIVES_MAX: u32 = 20;

/// Names one delivery of a message. A message that is delivered again gets a new handle, and the old one
/// no longer counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    text: Arc<str>,
    receive: u32,
}

impl Handle {
    /// The handle of a queue that calls the delivery `text` and counts it as the `receive`th.
    pub fn new(text: impl Into<Arc<str>>, receive: u32) -> Self {
        Self { text: text.into(), receive }
    }

    /// What the queue calls the delivery.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How often the message has been delivered, this time included.
    pub fn receive(&self) -> u32 {
        self.receive
    }
}

/// A message in somebody's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The run it is about.
    pub run: RunKey,
    /// Which way it came.
    pub queue: QueueName,
    /// What it asks for.
    pub job: Job,
    /// The work that led to it.
    pub trace: TraceContext,
    /// To extend or delete it with.
    pub handle: Handle,
}

impl Delivery {
    /// How often the message has been delivered, this time included.
    pub fn receives(&self) -> u32 {
        self.handle.receive
    }
}

/// A message that was delivered too often without being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The run it was about.
    pub run: RunKey,
    /// Which way it came.
    pub queue: QueueName,
    /// What it asked for.
    pub job: Job,
    /// How often it was delivered.
    pub receives: u32,
    /// When it was given up; when it was sent, if the queue cannot tell.
    pub at: Timestamp,
}

/// Messages, delivered at least once, in no promised order. Each goes by a queue, and no queue holds up another.
/// A message that is received is invisible to others for a while; if it is not deleted by then it comes back.
/// That is a courtesy: the lease decides. A queue may count in whole seconds, and then rounds up.
pub trait Queue {
    /// Sends a message that nobody sees before its delay has passed. It carries the trace context that it is sent in
    /// ([`crate::trace`]), and so do the messages of a commit.
    fn send(&self, message: &Outgoing) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Sends several messages, together where that is cheaper; says of each what became of it.
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

    /// Receives up to `max` messages of `queue` and hides them for `visibility`; waits up to `wait` for the
    /// first.
    fn receive(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Delivery>, StoreError>> + Send;

    /// Hides a message for `visibility` from now on. `false` if the queue says that the delivery no longer counts; SQS
    /// need not say so, and nobody may rely on it.
    fn extend(
        &self,
        handle: &Handle,
        visibility: Millis,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Deletes a message. `false` if the queue says that the delivery no longer counts; the message then comes again. SQS
    /// says yes to what is gone already, and may say yes to a delivery that another has followed.
    fn delete(&self, handle: &Handle) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Messages of all queues that were given up, oldest first.
    fn dead_letters(&self, limit: u32) -> impl Future<Output = Result<Vec<DeadLetter>, StoreError>> + Send;

    /// Puts given-up messages back where they came from, oldest first; says how many.
    fn redrive(&self, limit: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;

    /// How many messages there are in `queue`, visible or not.
    fn depth(&self, queue: QueueName) -> impl Future<Output = Result<u64, StoreError>> + Send;

    /// How many messages of `queue` could be received now; about, where a queue cannot tell.
    fn waiting(&self, queue: QueueName) -> impl Future<Output = Result<u64, StoreError>> + Send;
}
