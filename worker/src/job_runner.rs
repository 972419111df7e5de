//! Runs the job of one message.

use std::convert::Infallible;
use std::sync::Arc;

use domain::draft::DELAY_MAX;
use domain::{Job, Millis, Outgoing, Refusal, Timestamp};
use engine::{AdvanceLimits, AdvanceResult, Engine, EngineError, NotifyFailure, RetryHint};
use store::{Delivery, Handle, Store, StoreError};

use tokio::time::sleep;

use tokio_util::sync::CancellationToken;

/// How often the visibility timeout of a message is extended before it would expire.
const EXTENSIONS: u32 = 3;

/// A message that returns too early, because another worker holds the step or a system is unavailable, is replaced by
/// a new one after this many deliveries, long before it would become a dead letter.
const POSTPONED_MAX: u32 = 6;

/// A job may be sent before the commit that it belongs to. If there is still no commit after this many deliveries,
/// about a minute later, the commit was abandoned: a store repeats no commit for that long.
const TOO_EARLY_MAX: u32 = 3;

/// Whether a job belongs to a commit that is not there.
fn is_too_early(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(Refusal::UnknownApproval { .. }))
}

/// The first delay of a failed job; doubled each time, up to a few minutes.
const RETRY_AFTER: Millis = Millis::secs(5);

/// The delay of evidence that has failed for some minutes. Its run ended, so little depends on it, but users wait for it
/// after an outage.
const EVIDENCE_RETRY_AFTER: Millis = Millis::mins(5);

/// The longest delay while the store is unavailable: all work waits for it, and failures mark the worker unhealthy.
const STORE_RETRY_MAX: Millis = Millis::secs(30);

fn backoff(receives: u32) -> Millis {
    Millis(RETRY_AFTER.0 << receives.min(POSTPONED_MAX))
}

/// How long a failed message waits. `None`: the message is left alone and becomes a dead letter if it keeps failing.
fn retry_delay(error: &EngineError, receives: u32) -> Option<Millis> {
    match error {
        EngineError::NotifyFailure(NotifyFailure { retry: RetryHint::After(least), .. }) => {
            Some(backoff(receives).max(least.unwrap_or_default()))
        }
        EngineError::Store(StoreError::Busy { .. } | StoreError::Unknown { .. })
        | EngineError::PolicyBusy { .. } => Some(backoff(receives).min(STORE_RETRY_MAX)),
        _ => None,
    }
}

/// Whether a job made progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobProgress {
    /// It did, or its failure is not the store's.
    Processed,
    /// The store failed.
    StoreFailed,
}

impl JobProgress {
    fn of(error: &EngineError) -> Self {
        if matches!(error, EngineError::Store(_)) { Self::StoreFailed } else { Self::Processed }
    }
}

pub(crate) struct JobRunner<S> {
    pub(crate) engine: Arc<Engine<S>>,
    pub(crate) visibility: Millis,
    pub(crate) limits: AdvanceLimits,
    pub(crate) shutdown: CancellationToken,
}

impl<S: Store> JobRunner<S> {
    /// Runs the job. The message stays invisible meanwhile, however long the store takes to fail: each redelivery
    /// would count as a failed attempt.
    pub(crate) async fn run(&self, delivery: &Delivery) -> JobProgress {
        let done = tokio::select! {
            biased;
            done = self.run_job(delivery) => done,
            never = self.extend_visibility(&delivery.handle) => match never {},
        };
        // The visibility timeout is no longer extended: the next delivery is set here.
        self.acknowledge(delivery, done).await
    }

    /// Extends the visibility timeout until dropped.
    async fn extend_visibility(&self, handle: &Handle) -> Infallible {
        loop {
            sleep(self.visibility.std() / EXTENSIONS).await;
            if let Err(error) = self.engine.store().extend(handle, self.visibility).await {
                // Another worker may receive the message too; the lease keeps it out.
                tracing::warn!(event = "message_not_extended", %error, "visibility timeout not extended");
            }
        }
    }

    async fn run_job(&self, delivery: &Delivery) -> Result<AdvanceResult, EngineError> {
        let Delivery { run, job, .. } = delivery;
        match job {
            Job::Advance => self.engine.execution().advance(run, &self.shutdown, self.limits).await,
            Job::NotifyApproval { approval, revision } => self
                .engine
                .governance()
                .notify_approval(run, approval, *revision)
                .await
                .map(|()| AdvanceResult::Done),
            Job::PageOnCall { approval, revision } => self
                .engine
                .governance()
                .page_on_call(run, approval, *revision)
                .await
                .map(|()| AdvanceResult::Done),
            Job::BuildEvidence => {
                self.engine.operations().build_evidence(run).await.map(|_| AdvanceResult::Done)
            }
            Job::Start => self.engine.admission().process_entry(run).await,
        }
    }

    /// Deletes the message or sets its next delivery.
    async fn acknowledge(
        &self,
        delivery: &Delivery,
        done: Result<AdvanceResult, EngineError>,
    ) -> JobProgress {
        match done {
            Ok(AdvanceResult::Done) => self.delete(delivery).await,
            Ok(AdvanceResult::NotBefore(at)) => self.redeliver(delivery, at).await,
            Err(error) => {
                self.handle_failure(delivery, &error).await;
                return JobProgress::of(&error);
            }
        }
        JobProgress::Processed
    }

    /// A failed job is redelivered.
    async fn handle_failure(&self, delivery: &Delivery, error: &EngineError) {
        let (run, job, receives) = (&delivery.run, &delivery.job, delivery.receives());
        match error {
            // Another process has the key or the Slack connection.
            EngineError::NoSigningKey | EngineError::NoSlack => self.postpone_by(delivery, DELAY_MAX).await,
            // A newer worker does the job; this one can start nothing more.
            EngineError::UnsupportedRecordFormat { .. } => {
                tracing::error!(event = "program_outdated", %error, "program outdated; steps in progress finish");
                self.shutdown.cancel();
                self.postpone_by(delivery, RETRY_AFTER).await;
            }
            // It was sent before a commit that did not succeed.
            error if is_too_early(error) && receives >= TOO_EARLY_MAX => self.delete(delivery).await,
            error => {
                let why = engine::error_chain(error);
                tracing::warn!(event = "job_failed", %run, %job, error = why, receives, "job failed");
                // An external system may be unavailable for hours; approval requests must survive that.
                match (retry_delay(error, receives), job) {
                    // The run stays in the due index and the sweep sends new messages. If none were deleted, they
                    // would accumulate.
                    (Some(_), Job::Advance) if receives > POSTPONED_MAX => self.delete(delivery).await,
                    // There may be one message for each run that ended since evidence cannot be stored. Each waits longer
                    // from here.
                    (Some(_), Job::BuildEvidence) if receives > POSTPONED_MAX => {
                        self.postpone_by(delivery, EVIDENCE_RETRY_AFTER).await;
                    }
                    (Some(delay), _) => self.postpone_by(delivery, delay).await,
                    (None, _) => {}
                }
            }
        }
    }

    /// Returns a message without doing its job. The delivery must not count as a failed attempt, so a second one is
    /// replaced by a new message. So is one that waits long: an invisible message counts as in flight, and SQS limits
    /// the messages in flight of a queue.
    pub(crate) async fn return_to_queue(&self, delivery: &Delivery, delay: Millis) {
        let at = self.engine.now() + delay;
        if delivery.receives() > 1 || delay > self.visibility {
            self.replace(delivery, at).await;
        } else {
            self.postpone(delivery, at).await;
        }
    }

    /// Returns a message that asks for evidence. The requests that wait for the run's concurrency key do not wait for
    /// the evidence.
    pub(crate) async fn postpone_evidence(&self, delivery: &Delivery, delay: Millis) {
        let run = &delivery.run;
        if let Err(error) = self.engine.operations().release_concurrency_key(run).await {
            let error = engine::error_chain(&error);
            tracing::warn!(event = "key_not_released", %run, error, "concurrency key not released yet");
        }
        self.return_to_queue(delivery, delay).await;
    }

    async fn postpone_by(&self, delivery: &Delivery, delay: Millis) {
        self.redeliver(delivery, self.engine.now() + delay).await;
    }

    async fn delete(&self, delivery: &Delivery) {
        if let Err(error) = self.engine.store().delete(&delivery.handle).await {
            // It is redelivered and finds nothing to do.
            tracing::warn!(event = "message_not_deleted", run = %delivery.run, %error, "message not deleted");
        }
    }

    /// Redelivers the message at `at`, or a new one in its place.
    async fn redeliver(&self, delivery: &Delivery, at: Timestamp) {
        if delivery.receives() > POSTPONED_MAX {
            self.replace(delivery, at).await;
        } else {
            self.postpone(delivery, at).await;
        }
    }

    async fn postpone(&self, delivery: &Delivery, at: Timestamp) {
        let delay = self.delay_until(at);
        if let Err(error) = self.engine.store().extend(&delivery.handle, delay).await {
            tracing::warn!(event = "message_not_postponed", run = %delivery.run, %error, "message not postponed");
        }
    }

    /// Sends a new message, then deletes the old one. In this order it may be doubled but never lost: it may be the
    /// only message of a run whose worker died. A worker that no longer holds the message leaves this to the one that
    /// does.
    async fn replace(&self, delivery: &Delivery, at: Timestamp) {
        if !matches!(self.engine.store().extend(&delivery.handle, self.visibility).await, Ok(true)) {
            return;
        }
        let Delivery { run, queue, job, .. } = delivery.clone();
        let message = Outgoing { run, queue, job, delay: self.delay_until(at) };
        match self.engine.store().send(&message).await {
            Ok(()) => self.delete(delivery).await,
            Err(error) => {
                tracing::warn!(event = "message_not_replaced", run = %delivery.run, %error, "message not replaced");
            }
        }
    }

    fn delay_until(&self, at: Timestamp) -> Millis {
        (at - self.engine.now()).min(DELAY_MAX)
    }
}
