//! The queue: messages that say *this run has something to do now*, or what else is to be done about it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use domain::{Errand, Millis, RunKey, Timestamp};

use crate::error::StoreError;

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
    /// What it asks for.
    pub errand: Errand,
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
    /// What it asked for.
    pub errand: Errand,
    /// How often it was delivered.
    pub receives: u32,
    /// When it was given up.
    pub at: Timestamp,
}

/// Messages, delivered at least once, in no promised order. A message that is received is invisible to
/// others for a while; if it is not deleted by then it comes back. That is a courtesy: the lease decides.
pub trait Queue {
    /// Sends a message about `run` that nobody sees before `delay` has passed.
    fn send(
        &self,
        run: &RunKey,
        errand: &Errand,
        delay: Millis,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Receives up to `max` messages and hides them for `visibility`; waits up to `wait` for the first.
    fn receive(
        &self,
        max: usize,
        visibility: Millis,
        wait: Duration,
    ) -> impl Future<Output = Result<Vec<Delivery>, StoreError>> + Send;

    /// Hides a message for `visibility` from now on. `false` if the delivery no longer counts.
    fn extend(
        &self,
        handle: &Handle,
        visibility: Millis,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Deletes a message. `false` if the delivery no longer counts; the message then comes again.
    fn delete(&self, handle: &Handle) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Messages that were given up, oldest first.
    fn dead_letters(&self, limit: u32) -> impl Future<Output = Result<Vec<DeadLetter>, StoreError>> + Send;

    /// Puts given-up messages back, oldest first; says how many.
    fn redrive(&self, limit: u32) -> impl Future<Output = Result<u32, StoreError>> + Send;

    /// How many messages there are, visible or not.
    fn depth(&self) -> impl Future<Output = Result<u64, StoreError>> + Send;
}
