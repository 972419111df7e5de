//! Commands on a run: signal, cancel, pause, resume, roll back.

use domain::command::{
    Advanced, Cancel, CancelResult, Command as _, DeliverSignal, Pause, Resume, RollBack, SignalResult,
};
use domain::failure::{MESSAGE_CHARS_MAX, bounded};
use domain::record::Signal;
use domain::{EventName, Initiator, RunKey, SignalId, StepSeq, json};
use serde_json::Value;
use store::Store;

use crate::Engine;
use crate::commit::{Committed, ROUNDS_MAX};
use crate::error::EngineError;

/// An event for a waiting run.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalRun {
    /// The same id is a duplicate; with another event or payload it is refused.
    pub id: SignalId,
    pub event: EventName,
    pub payload: Value,
}

impl<S: Store> Engine<S> {
    pub async fn signal(
        &self,
        run: &RunKey,
        by: &Initiator,
        request: SignalRun,
    ) -> Result<SignalResult, EngineError> {
        json::check(&request.payload)
            .map_err(|source| EngineError::BadInput { what: "the event's payload", source })?;
        let (payload, fingerprint) = self.put_payload(&run.tenant, &request.payload).await?;
        let signal = Signal {
            id: request.id,
            event: request.event,
            payload,
            fingerprint,
            at: self.now(),
            buffered: false,
        };
        let mut loaded = self.load(run).await?;
        for _ in 0..ROUNDS_MAX {
            let known = self.retry_busy(|| self.store.signal(run, &signal.id)).await?;
            let mut draft = self.draft(&loaded, by);
            let answer = DeliverSignal { signal: signal.clone(), known }.decide(&mut draft)?;
            if answer == SignalResult::Duplicate {
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

    /// Cancels a run, now or as soon as its current step allows.
    pub async fn cancel(
        &self,
        run: &RunKey,
        by: &Initiator,
        reason: &str,
    ) -> Result<CancelResult, EngineError> {
        self.decide(run, by, &Cancel { reason: in_short(reason) }).await
    }

    /// Pauses a run; `None` while its step must finish first.
    pub async fn pause(
        &self,
        run: &RunKey,
        by: &Initiator,
        reason: &str,
    ) -> Result<Option<Advanced>, EngineError> {
        self.decide(run, by, &Pause { reason: in_short(reason) }).await
    }

    /// Resumes a paused run at its current step.
    pub async fn resume(&self, run: &RunKey, by: &Initiator, reason: &str) -> Result<(), EngineError> {
        self.decide(run, by, &Resume { reason: in_short(reason) }).await
    }

    /// Rolls back a run's effects, newest first; returns the step it starts with.
    pub async fn roll_back(
        &self,
        run: &RunKey,
        by: &Initiator,
        reason: &str,
    ) -> Result<StepSeq, EngineError> {
        self.decide(run, by, &RollBack { reason: in_short(reason) }).await
    }
}

/// The reason, cut to the length that a record may hold.
fn in_short(reason: &str) -> String {
    bounded(reason, MESSAGE_CHARS_MAX)
}
