//! Commands on a run: signal, cancel, pause, resume, roll back.

use domain::command::{
    AfterStep, Cancel, CancelResult, Command, DeliverSignal, Pause, Resume, RollBack, SignalResult,
};
use domain::failure::{MESSAGE_CHARS_MAX, bounded};
use domain::record::Signal;
use domain::{EventName, RunId, SignalId, StepId, StepSeq, json};
use serde_json::Value;
use store::Store;

use crate::core::commit::{CommitResult, ROUNDS_MAX};
use crate::error::EngineError;
use crate::tenant_handle::TenantHandle;

/// An event for a waiting run.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalRun {
    /// The same id is a duplicate; with another event or payload it is refused.
    pub id: SignalId,
    pub event: EventName,
    pub payload: Value,
}

impl<S: Store> TenantHandle<S> {
    pub async fn signal(&self, run: &RunId, request: SignalRun) -> Result<SignalResult, EngineError> {
        json::check(&request.payload)
            .map_err(|source| EngineError::BadInput { what: "the event's payload", source })?;
        let (payload, fingerprint) = self.core.put_payload(&self.tenant, &request.payload).await?;
        let signal = Signal {
            id: request.id,
            event: request.event,
            payload,
            fingerprint,
            at: self.now(),
            buffered: false,
        };
        let run = self.key(run);
        let mut loaded = self.explain_missing_run(self.core.load(&run).await).await?;
        for _ in 0..ROUNDS_MAX {
            let known = self.core.retry_busy(|store| store.signal(&run, &signal.id)).await?;
            let mut draft = self.core.draft(&loaded, &self.by);
            let answer = DeliverSignal { signal: signal.clone(), known }.decide(&mut draft)?;
            if answer == SignalResult::Duplicate {
                return Ok(answer);
            }
            let decision = draft.close();
            match self.core.commit(&loaded, decision).await? {
                CommitResult::Committed(_) => return Ok(answer),
                CommitResult::Superseded(now) => loaded = now,
            }
        }
        Err(EngineError::Contended { run, rounds: ROUNDS_MAX })
    }

    /// Cancels a run, now or as soon as its current step allows.
    pub async fn cancel(&self, run: &RunId, reason: &str) -> Result<CancelResult, EngineError> {
        self.decide(run, &Cancel { reason: truncate(reason) }).await
    }

    /// Pauses a run; `None` while its step must finish first.
    pub async fn pause(&self, run: &RunId, reason: &str) -> Result<Option<AfterStep>, EngineError> {
        self.decide(run, &Pause { reason: truncate(reason) }).await
    }

    /// Resumes a paused run at its current step.
    pub async fn resume(&self, run: &RunId, reason: &str) -> Result<(), EngineError> {
        self.decide(run, &Resume { reason: truncate(reason) }).await
    }

    /// Rolls back a run's effects, newest first, down to a step if one is given; returns the step it starts with.
    pub async fn roll_back(
        &self,
        run: &RunId,
        reason: &str,
        down_to: Option<StepId>,
    ) -> Result<StepSeq, EngineError> {
        self.decide(run, &RollBack { reason: truncate(reason), down_to }).await
    }

    async fn decide<C: Command + Clone>(&self, run: &RunId, command: &C) -> Result<C::Output, EngineError> {
        // The commit is a large future, and callers hold more than one.
        let decided = Box::pin(self.core.decide(&self.key(run), &self.by, command)).await;
        self.explain_missing_run(decided).await
    }
}

/// The reason, cut to the length that a record may hold.
fn truncate(reason: &str) -> String {
    bounded(reason, MESSAGE_CHARS_MAX)
}
