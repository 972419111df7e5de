//! What people and outside systems want of a run.

use domain::command::{
    Advanced, Cancel, Canceling, Command as _, DeliverSignal, Delivered, Pause, Resume, RollBack,
};
use domain::failure::{MESSAGE_CHARS_MAX, bounded};
use domain::record::Signal;
use domain::{EventName, Initiator, RunKey, SignalId, StepSeq, json};
use serde_json::Value;
use store::Store;

use crate::Engine;
use crate::commit::{Committed, ROUNDS_MAX};
use crate::error::EngineError;

/// An event for a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalRun {
    /// Which delivery: the same id changes nothing the second time, and is refused with another event or payload.
    pub id: SignalId,
    /// Which event.
    pub event: EventName,
    /// What comes with it.
    pub payload: Value,
}

impl<S: Store> Engine<S> {
    /// Delivers an event to a run.
    pub async fn signal(
        &self,
        run: &RunKey,
        by: &Initiator,
        wish: SignalRun,
    ) -> Result<Delivered, EngineError> {
        json::check(&wish.payload)
            .map_err(|source| EngineError::BadInput { what: "the event's payload", source })?;
        let (payload, fingerprint) = self.keep(&run.tenant, &wish.payload).await?;
        let signal =
            Signal { id: wish.id, event: wish.event, payload, fingerprint, at: self.now(), kept: false };
        let mut loaded = self.load(run).await?;
        for _ in 0..ROUNDS_MAX {
            let known = self.retry_busy(|| self.store.signal(run, &signal.id)).await?;
            let mut draft = self.draft(&loaded, by);
            let answer = DeliverSignal { signal: signal.clone(), known }.decide(&mut draft)?;
            if answer == Delivered::Duplicate {
                return Ok(answer);
            }
            let decision = draft.close();
            match self.commit(&loaded, decision).await? {
                Committed::Yes(_) => return Ok(answer),
                Committed::Overtaken(now) => loaded = now,
            }
        }
        Err(EngineError::Contended { run: run.clone(), rounds: ROUNDS_MAX })
    }

    /// Stops a run, now or as soon as its step lets it.
    pub async fn cancel(&self, run: &RunKey, by: &Initiator, reason: &str) -> Result<Canceling, EngineError> {
        self.decide(run, by, &Cancel { reason: in_short(reason) }).await
    }

    /// Holds a run for an operator; `None` while its step must finish first.
    pub async fn pause(
        &self,
        run: &RunKey,
        by: &Initiator,
        reason: &str,
    ) -> Result<Option<Advanced>, EngineError> {
        self.decide(run, by, &Pause { reason: in_short(reason) }).await
    }

    /// Lets a paused run go on with its current step.
    pub async fn resume(&self, run: &RunKey, by: &Initiator, reason: &str) -> Result<(), EngineError> {
        self.decide(run, by, &Resume { reason: in_short(reason) }).await
    }

    /// Takes a run's effects back, newest first; says with which step it begins.
    pub async fn roll_back(
        &self,
        run: &RunKey,
        by: &Initiator,
        reason: &str,
    ) -> Result<StepSeq, EngineError> {
        self.decide(run, by, &RollBack { reason: in_short(reason) }).await
    }
}

/// A person's reason, as long as a record can carry it.
fn in_short(reason: &str) -> String {
    bounded(reason, MESSAGE_CHARS_MAX)
}
