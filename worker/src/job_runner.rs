//! One message, one job.

use std::convert::Infallible;
use std::sync::Arc;

use domain::draft::DELAY_MAX;
use domain::{Job, Millis, Outgoing, Refusal, Timestamp};
use engine::{AdvanceLimits, AdvanceResult, Again, Engine, EngineError, Hurry, NotShown};
use store::{Delivery, Handle, Store, StoreError};

use tokio::time::sleep;

use crate::leaving::Leaving;

/// A message that is dealt with is asked to stay hidden so many times before it would be given to somebody else.
const BEATS: u32 = 3;

/// A message that keeps coming too early, for a step which somebody else holds or for a system or a store that is down,
/// is replaced by a fresh one after this many deliveries, long before it would be taken for one that gets nowhere.
const POSTPONED_MAX: u32 = 6;

/// An job may be sent before the commit that it belongs to. What has no commit when it comes for this many times,
/// about a minute later, belongs to one that was given up: a store repeats no commit for that long.
const TOO_EARLY_MAX: u32 = 3;

/// Whether an job is for something that has not happened.
fn is_too_early(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused(Refusal::UnknownApproval { .. }))
}

/// How long what could not be done for now waits at first; longer each time, up to a few minutes.
const AGAIN_AFTER: Millis = Millis::secs(5);

/// How long it waits at most for a store that is away: everybody waits for that, and by what it gets nowhere with a
/// worker is known to be unwell.
const STORE_AWAY_MAX: Millis = Millis::secs(30);

fn longer(receives: u32) -> Millis {
    Millis(AGAIN_AFTER.0 << receives.min(POSTPONED_MAX))
}

/// How long a message waits that failed like this. `None`, if it is not worth waiting for: it is left alone, and one that
/// never gets anywhere ends up with the dead letters, where a person looks.
fn waits_for(error: &EngineError, receives: u32) -> Option<Millis> {
    match error {
        EngineError::NotShown(NotShown { again: Again::After(least), .. }) => {
            Some(longer(receives).max(least.unwrap_or_default()))
        }
        EngineError::Store(StoreError::Busy { .. } | StoreError::Unknown { .. })
        | EngineError::PolicyBusy { .. } => Some(longer(receives).min(STORE_AWAY_MAX)),
        _ => None,
    }
}

/// Whether the worker got anywhere with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Went {
    /// It did, or what kept it from that is not for a worker to mend.
    Somewhere,
    /// The store kept it from that.
    Nowhere,
}

impl Went {
    fn of(error: &EngineError) -> Self {
        if matches!(error, EngineError::Store(_)) { Self::Nowhere } else { Self::Somewhere }
    }
}

pub(crate) struct JobRunner<S> {
    pub(crate) engine: Arc<Engine<S>>,
    pub(crate) visibility: Millis,
    pub(crate) limits: AdvanceLimits,
    pub(crate) leaving: Leaving,
}

impl Hurry for Leaving {
    fn is_leaving(&self) -> bool {
        self.is_asked()
    }
}

impl<S: Store> JobRunner<S> {
    /// Does what the message asks for. Nobody else is given it meanwhile, however long a store takes to say no: each who
    /// was would count as one more who got nowhere with it.
    pub(crate) async fn run(&self, delivery: Delivery) -> Went {
        let done = tokio::select! {
            biased;
            done = self.deal_with(&delivery) => done,
            never = self.keep_hidden(&delivery.handle) => match never {},
        };
        // Nobody keeps it hidden any more: when it comes again is settled here, and must stand.
        self.settle(&delivery, done).await
    }

    /// Keeps the message from being given to anybody else.
    async fn keep_hidden(&self, handle: &Handle) -> Infallible {
        loop {
            sleep(self.visibility.std() / BEATS).await;
            if let Err(error) = self.engine.store().extend(handle, self.visibility).await {
                // Somebody else may get the message too; the lease keeps them out.
                tracing::warn!(%error, "message not extended");
            }
        }
    }

    async fn deal_with(&self, delivery: &Delivery) -> Result<AdvanceResult, EngineError> {
        let Delivery { run, job, .. } = delivery;
        match job {
            Job::Advance => self.engine.advance(run, &self.leaving, self.limits).await,
            Job::NotifyApproval(approval) => {
                self.engine.show(run, approval).await.map(|()| AdvanceResult::Done)
            }
            Job::BuildEvidence => self.engine.seal(run).await.map(|_| AdvanceResult::Done),
            Job::Start => self.engine.begin(run).await,
        }
    }

    /// What becomes of the message.
    async fn settle(&self, delivery: &Delivery, done: Result<AdvanceResult, EngineError>) -> Went {
        match done {
            Ok(AdvanceResult::Done) => self.delete(delivery).await,
            Ok(AdvanceResult::NotBefore(at)) => self.come_back(delivery, at).await,
            Err(error) => {
                self.failed(delivery, &error).await;
                return Went::of(&error);
            }
        }
        Went::Somewhere
    }

    /// An job that failed comes back with its message.
    async fn failed(&self, delivery: &Delivery, error: &EngineError) {
        let (run, job, receives) = (&delivery.run, &delivery.job, delivery.receives());
        match error {
            // Others can; this message is for one of them.
            EngineError::NoKey | EngineError::NoSlack => self.put_off(delivery, DELAY_MAX).await,
            // It was sent before a commit that then did not stand.
            error if is_too_early(error) && receives >= TOO_EARLY_MAX => self.delete(delivery).await,
            error => {
                let why = engine::told(error);
                tracing::warn!(%run, %job, error = why, receives, "job failed");
                // Whatever ails the other side, or the store, may take hours; that is no reason to give people up.
                match (waits_for(error, receives), job) {
                    // The run is due until somebody gets on with it, and each look brings a message: if none of them
                    // ever went, there would be more and more.
                    (Some(_), Job::Advance) if receives > POSTPONED_MAX => self.delete(delivery).await,
                    // On AWS the store asks for evidence again by itself, so that a few messages come together while it
                    // cannot be kept. Now and then each of them waits for longer.
                    (Some(_), Job::BuildEvidence) if receives > POSTPONED_MAX => {
                        self.put_off(delivery, DELAY_MAX).await;
                    }
                    (Some(delay), _) => self.put_off(delivery, delay).await,
                    (None, _) => {}
                }
            }
        }
    }

    async fn put_off(&self, delivery: &Delivery, delay: Millis) {
        self.come_back(delivery, self.engine.now() + delay).await;
    }

    async fn delete(&self, delivery: &Delivery) {
        if let Err(error) = self.engine.store().delete(&delivery.handle).await {
            // It comes again and finds nothing to do.
            tracing::warn!(run = %delivery.run, %error, "message not deleted");
        }
    }

    /// The message comes again at `at`, by itself or as a fresh one.
    async fn come_back(&self, delivery: &Delivery, at: Timestamp) {
        if delivery.receives() > POSTPONED_MAX {
            self.replace(delivery, at).await;
        } else {
            self.postpone(delivery, at).await;
        }
    }

    async fn postpone(&self, delivery: &Delivery, at: Timestamp) {
        let delay = self.until(at);
        if let Err(error) = self.engine.store().extend(&delivery.handle, delay).await {
            tracing::warn!(run = %delivery.run, %error, "message not postponed");
        }
    }

    /// Sends the message anew, then deletes it. In this order it may be doubled, and is never lost: it may
    /// be the only one there is, if whoever holds the step is dead. Whoever no longer has it leaves that to those who do.
    async fn replace(&self, delivery: &Delivery, at: Timestamp) {
        if !matches!(self.engine.store().extend(&delivery.handle, self.visibility).await, Ok(true)) {
            return;
        }
        let Delivery { run, queue, job, .. } = delivery.clone();
        let message = Outgoing { run, queue, job, delay: self.until(at) };
        match self.engine.store().send(&message).await {
            Ok(()) => self.delete(delivery).await,
            Err(error) => tracing::warn!(run = %delivery.run, %error, "message not replaced"),
        }
    }

    fn until(&self, at: Timestamp) -> Millis {
        (at - self.engine.now()).min(DELAY_MAX)
    }
}
