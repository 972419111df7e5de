//! Creates a run, if its concurrency key is free.

use domain::command::{Admit, admit};
use domain::payload::Fingerprint;
use domain::{Cause, OnConflict, PersonId, Refusal, RunId, RunKey, RunRecord, Timestamp, TraceContext, json};
use store::{Admission, Store, Write, trace};

use super::concurrency::{KeyConflict, KeyStatus};
use super::request::{StartOutcome, StartResult, StartRun};
use crate::admission::AdmissionService;
use crate::core::commit::ROUNDS_MAX;
use crate::core::journal;
use crate::error::EngineError;

pub(super) enum AdmitResult {
    /// The run exists: created now, or by the same request before.
    Started(StartResult),
    Conflict(KeyConflict),
}

impl<S: Store> AdmissionService<'_, S> {
    /// Creates a run, finds the one that the same request created before, or returns what holds its concurrency key.
    pub(super) async fn admit(
        self,
        request: &StartRun,
        waiting_since: Timestamp,
    ) -> Result<AdmitResult, EngineError> {
        json::check(&request.input).map_err(super::request::invalid_input)?;
        if request.by.cause == Cause::User && PersonId::new(&request.by.id).is_err() {
            return Err(EngineError::InvalidUserName { id: request.by.id.clone() });
        }
        let (input, fingerprint) = self.core.put_payload(&request.tenant, &request.input).await?;
        self.core.put_plan(&request.tenant, &request.plan).await?;
        let run =
            RunKey { tenant: request.tenant.clone(), run: RunId::derive(&request.tenant, &request.key) };
        let key = self.concurrency_key(&run, &request.plan, &request.input).await?;
        let rule = request.plan.concurrency.as_ref().map(|rule| rule.on_conflict);
        // A request that is rejected at once never waits, so earlier waiters do not concern it.
        let waits = rule.is_some_and(|rule| rule != OnConflict::Reject).then_some(waiting_since);
        for _ in 0..ROUNDS_MAX {
            let hold = match self.key_status(&run, key, waits).await? {
                KeyStatus::Free(hold) => hold,
                KeyStatus::Held(conflict) => {
                    // An idempotency key names its run for ever, also when another run holds the concurrency key now.
                    let first = self.core.retry_busy(|store| store.load(&run)).await?;
                    let Some(first) = first else { return Ok(AdmitResult::Conflict(conflict)) };
                    return Ok(AdmitResult::Started(started_before(&first, request, fingerprint)?));
                }
            };
            let command = command(request, fingerprint, trace::parent_of(&run));
            let decision = admit(command, &request.plan, self.core.context(request.by.clone()));
            let op = decision.record.op.clone();
            let admission = Admission { decision, input: input.clone(), hold };
            if self.core.retry_busy(|store| store.admit(admission.clone())).await? == Write::Committed {
                journal::log_created(&run, &request.plan.workflow);
                return Ok(AdmitResult::Started(StartResult {
                    run,
                    new: true,
                    outcome: StartOutcome::OwnRun,
                }));
            }
            // If no run has this key, another run took the concurrency key in between.
            if let Some(first) = self.core.retry_busy(|store| store.load(&run)).await? {
                let started = started_before(&first, request, fingerprint)?;
                // The first attempt of this write may have committed while its reply was lost.
                let new = first.op == op;
                if new {
                    journal::log_created(&run, &request.plan.workflow);
                    Box::pin(self.core.send_again(&admission.decision)).await;
                }
                return Ok(AdmitResult::Started(StartResult { new, ..started }));
            }
        }
        Err(EngineError::Contended { run, rounds: ROUNDS_MAX })
    }
}

fn command(request: &StartRun, input: Fingerprint, trace: Option<TraceContext>) -> Admit {
    Admit {
        tenant: request.tenant.clone(),
        workspace: request.workspace.clone(),
        trigger_kind: request.trigger_kind.clone(),
        key: request.key.clone(),
        record: request.record.clone(),
        trace,
        input,
        applied_by: request.applied_by.clone(),
        inherited: request.inherited.clone(),
    }
}

/// The run that an idempotency key names, if the request is the same: the same workflow in any version, the same record
/// and the same input.
fn started_before(
    first: &RunRecord,
    request: &StartRun,
    input: Fingerprint,
) -> Result<StartResult, EngineError> {
    let run = first.key.clone();
    let same = first.trigger.input == input.sha256
        && first.trigger.record == request.record
        && first.workflow == request.plan.workflow;
    if !same {
        return Err(Refusal::KeyConflict { run }.into());
    }
    Ok(StartResult { run, new: false, outcome: StartOutcome::OwnRun })
}
