//! Performs a claimed step: calls the tool, renews the lease meanwhile, and commits the outcome.

use std::pin::pin;

use connectors::{ToolCall, ToolOutcome, ToolResult, in_trace};
use domain::command::{
    AfterStep, AttemptMode, Command as _, EffectOutcome, Fail, Finish, Renew, Retry, RetryResult,
};
use domain::payload::Fingerprint;
use domain::{Charge, Draft, Failure, Fence, Initiator, Payload, Refusal, StepSeq, Tenant, failure, json};
use serde_json::Value;
use store::{Store, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::core::LoadedRun;
use crate::core::commit::{CommitResult, ROUNDS_MAX};
use crate::core::connections::{CredentialFailure, ResolvedConnection};
use crate::error::EngineError;
use crate::execution::ExecutionService;
use crate::execution::advance::{HandOff, LeasedStep, RunDriver, RunPosition, Shutdown};
use crate::execution::bind::Proposal;

/// How work on a held step ended.
enum StepWork<T> {
    Done(LoadedRun, T),
    /// Another worker holds the step.
    Lost(LoadedRun),
}

/// The output of a tool, as stored.
type StoredOutput = (Payload, Fingerprint);

/// The result of a lease renewal.
pub(crate) enum Renewal {
    Renewed {
        loaded: LoadedRun,
        cancel_requested: bool,
    },
    /// Another worker holds the step.
    Lost(LoadedRun),
    /// The store did not reply. The lease may still be held.
    NoReply,
}

impl<S: Store> ExecutionService<'_, S> {
    /// Performs a held step and commits its outcome.
    pub(crate) async fn perform_step<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: LoadedRun,
        held: LeasedStep,
    ) -> Result<RunPosition, EngineError> {
        let effect = held.effect();
        match self.perform_under_lease(loaded, &held).await? {
            StepWork::Lost(loaded) => Ok(RunPosition::Free(loaded)),
            StepWork::Done(loaded, ToolOutcome::Done(done)) => self.finish(driver, loaded, held, done).await,
            StepWork::Done(loaded, ToolOutcome::Retryable { failure, certainty, retry_after }) => {
                let command = Retry {
                    fence: held.grant.fence,
                    failure,
                    // An earlier attempt may have acted, even if this one did not.
                    certainty: if held.grant.mode == AttemptMode::Fresh {
                        certainty
                    } else {
                        EffectOutcome::MayHaveHappened
                    },
                    retry_after,
                    receipt: held.grant.receipt,
                };
                self.record_outcome(loaded, effect, HandOff::None, |draft| {
                    command.clone().decide(draft).map(advanced)
                })
                .await
            }
            StepWork::Done(loaded, ToolOutcome::Terminal(failure)) => self.fail(loaded, held, failure).await,
        }
    }

    async fn finish<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: LoadedRun,
        held: LeasedStep,
        mut done: ToolResult,
    ) -> Result<RunPosition, EngineError> {
        match check_storable(&done.output) {
            Ok(()) => {}
            // The effect happened. An output that cannot be stored must not lose the record of it.
            Err(failure) if held.grant.receipt.is_some() => done.output = dropped_output(&failure.message),
            Err(failure) => {
                let charge = Charge { cost_microusd: done.cost_microusd, usage: done.usage };
                return self.fail(loaded, held, failure.charged(charge)).await;
            }
        }
        let stored = self.store_output(loaded, &held, &done.output).await?;
        let (loaded, (output, fingerprint)) = match stored {
            StepWork::Done(loaded, stored) => (loaded, stored),
            StepWork::Lost(loaded) => return Ok(RunPosition::Free(loaded)),
        };
        let effect = held.effect();
        driver.cache.remember(&loaded, held.seq, &done.output);
        let hand_off = self.prepare_hand_off_in_time(driver, &loaded, held.seq.next()).await;
        let command = Finish {
            fence: held.grant.fence,
            output,
            fingerprint,
            response: storable_or_dropped(done.response),
            inverse: done
                .inverse
                .map(|inverse| on_connection(inverse, held.proposal.connection.as_ref()))
                .filter(|inverse| json::check(inverse).is_ok()),
            cost_microusd: done.cost_microusd,
            usage: done.usage,
            receipt: held.grant.receipt,
        };
        self.record_outcome(loaded, effect, hand_off, |draft| command.clone().decide(draft).map(Some)).await
    }

    /// The hand-off to the next step, if it is prepared in time. The lease of the step is not renewed meanwhile, so its
    /// outcome must not wait for a slow external system, nor fail with the next step.
    async fn prepare_hand_off_in_time<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: &LoadedRun,
        seq: StepSeq,
    ) -> HandOff {
        let prepared =
            timeout(self.core.timing.renew_every.std(), self.prepare_hand_off(driver, loaded, seq)).await;
        match prepared {
            Ok(Ok(hand_off)) => hand_off,
            Ok(Err(error)) => {
                tracing::warn!(event = "next_step_not_prepared", %error, run = %loaded.record.key, "next step not prepared");
                HandOff::None
            }
            Err(_) => HandOff::None,
        }
    }

    async fn fail(
        self,
        loaded: LoadedRun,
        held: LeasedStep,
        failure: Failure,
    ) -> Result<RunPosition, EngineError> {
        let effect = held.effect();
        if held.grant.mode != AttemptMode::Fresh && held.grant.receipt.is_some() {
            // This attempt did nothing, but an earlier one may have acted: the outcome is not known to be a failure.
            let command = Retry {
                fence: held.grant.fence,
                failure,
                certainty: EffectOutcome::MayHaveHappened,
                retry_after: None,
                receipt: held.grant.receipt,
            };
            return self
                .record_outcome(loaded, effect, HandOff::None, |draft| {
                    command.clone().decide(draft).map(advanced)
                })
                .await;
        }
        let command = Fail { fence: Some(held.grant.fence), failure, receipt: held.grant.receipt };
        self.record_outcome(loaded, effect, HandOff::None, |draft| command.clone().decide(draft).map(Some))
            .await
    }

    /// Performs the step and renews the lease until the tool returns. A lost lease ends the work at once. So does a lease
    /// that could not be renewed before it expired.
    async fn perform_under_lease(
        self,
        mut loaded: LoadedRun,
        held: &LeasedStep,
    ) -> Result<StepWork<ToolOutcome>, EngineError> {
        let run = loaded.record.key.clone();
        let Some(step) = loaded.plan.plan().step(held.seq).map(|step| step.id.clone()) else {
            return Ok(StepWork::Lost(loaded));
        };
        let call = ToolCall {
            run: &run,
            step: &step,
            action: &held.proposal.action,
            fence: held.grant.fence,
            again: held.grant.mode != AttemptMode::Fresh,
            time_left: self.core.timing.work_max.std(),
        };
        let attempt = format!("step {} fence {}", held.seq.0, held.grant.fence.0);
        let (lease, heartbeat) = (self.core.timing.lease.std(), self.core.timing.renew_every.std());
        let (known_end, lease_end) = watch::channel(held.since + lease);
        let work = self.call_tool(held, call, lease_end);
        let work = in_trace(loaded.record.trace_context().next(&attempt), work);
        tokio::pin!(work);
        let (mut lease_ends, mut renew_at) = (held.since + lease, held.since + heartbeat);
        // A lease that expired while its claim was being written is renewed before the tool starts.
        let mut expired = Instant::now() >= lease_ends;
        loop {
            tokio::select! {
                biased;
                outcome = &mut work, if !expired => return Ok(StepWork::Done(loaded, outcome)),
                () = sleep_until(renew_at), if !expired => {}
                else => lease_ends = Instant::now() + lease,
            }
            // The ledger counts the new lease from before the write, so this process counts from before it asks.
            let asked_at = Instant::now();
            let renewal = timeout_at(lease_ends, Box::pin(self.renew_lease(&loaded, held.grant.fence)));
            let renewal = tokio::select! {
                biased;
                // The record's version guards the outcome, whether or not the renewal lands as well.
                outcome = &mut work, if !expired => return Ok(StepWork::Done(loaded, outcome)),
                renewal = renewal => renewal.unwrap_or(Ok(Renewal::NoReply)),
            };
            match renewal? {
                Renewal::Renewed { loaded: now, cancel_requested } => {
                    (loaded, expired, lease_ends) = (now, false, asked_at + lease);
                    known_end.send_replace(lease_ends);
                    if cancel_requested && held.grant.receipt.is_none() {
                        return Ok(StepWork::Done(loaded, canceled()));
                    }
                }
                Renewal::Lost(now) => return Ok(StepWork::Lost(now)),
                Renewal::NoReply if expired || Instant::now() >= lease_ends => {
                    return Ok(StepWork::Lost(loaded));
                }
                Renewal::NoReply => {}
            }
            renew_at = asked_at + heartbeat;
        }
    }

    /// Stores the output of a call and renews the lease meanwhile. The outcome of an effect is not dropped because its
    /// output cannot be stored now, for example because the disk is full. An output that cannot be stored for as long as
    /// a tool may take is dropped. A read can be repeated, so its error is returned.
    async fn store_output(
        self,
        mut loaded: LoadedRun,
        held: &LeasedStep,
        output: &Value,
    ) -> Result<StepWork<StoredOutput>, EngineError> {
        let (tenant, has_effect) = (loaded.record.key.tenant.clone(), held.grant.receipt.is_some());
        let give_up_at = Instant::now() + self.core.timing.work_max.std();
        loop {
            let mut stored = pin!(timeout_at(give_up_at, self.core.put_payload(&tenant, output)));
            let stored = loop {
                tokio::select! {
                    biased;
                    stored = &mut stored => break stored,
                    () = sleep(self.core.timing.renew_every.std()) => {}
                }
                match self.renew_lease(&loaded, held.grant.fence).await? {
                    Renewal::Renewed { loaded: now, .. } => loaded = now,
                    Renewal::Lost(now) => return Ok(StepWork::Lost(now)),
                    Renewal::NoReply => {}
                }
            };
            let error = match stored {
                Ok(Ok(stored)) => return Ok(StepWork::Done(loaded, stored)),
                Ok(Err(EngineError::Store(error))) => error,
                Ok(Err(error)) => return Err(error),
                Err(_) => StoreError::Busy { doing: "store an output" },
            };
            let is_transient = matches!(error, StoreError::Busy { .. } | StoreError::Unknown { .. });
            match (has_effect, Instant::now() < give_up_at) {
                (false, in_time) if !in_time || !is_transient => return Err(error.into()),
                (true, false) => {
                    let dropped = dropped_output(&format!("the output could not be stored: {error}"));
                    return Ok(StepWork::Done(loaded, self.core.put_payload(&tenant, &dropped).await?));
                }
                (false | true, _) => {}
            }
            tracing::warn!(event = "output_not_stored", %error, "output not stored yet; retrying");
            sleep(self.core.timing.renew_every.std()).await;
        }
    }

    /// Extends the lease on the step.
    pub(crate) async fn renew_lease(self, loaded: &LoadedRun, fence: Fence) -> Result<Renewal, EngineError> {
        let mut loaded = loaded.clone();
        let by = Initiator::new(domain::Cause::System, self.core.me.as_str());
        for _ in 0..ROUNDS_MAX {
            let mut draft: Draft<'_> = self.core.draft(&loaded, &by);
            let renew = Renew { fence, lease: self.core.timing.lease };
            let renewed = match renew.decide(&mut draft) {
                Ok(renewed) => renewed,
                Err(Refusal::StaleFence { .. } | Refusal::Terminal { .. }) => {
                    return Ok(Renewal::Lost(loaded));
                }
                Err(refusal) => return Err(refusal.into()),
            };
            let decision = draft.close();
            match self.core.commit(&loaded, decision).await {
                Ok(CommitResult::Committed(now)) => {
                    return Ok(Renewal::Renewed { loaded: now, cancel_requested: renewed.cancel_requested });
                }
                Ok(CommitResult::Superseded(now)) => loaded = now,
                Err(EngineError::Store(error)) => {
                    tracing::warn!(event = "lease_not_renewed", %error, "lease not renewed");
                    return Ok(Renewal::NoReply);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Renewal::NoReply)
    }

    /// Calls the tool with the credential as it is now. If the lease expires while the credential is fetched, it must be
    /// renewed before the call: another worker may have taken over the step.
    async fn call_tool(
        self,
        held: &LeasedStep,
        call: ToolCall<'_>,
        mut lease_end: watch::Receiver<Instant>,
    ) -> ToolOutcome {
        let Proposal { tool, connection, .. } = &held.proposal;
        let settings = if call.action.class.calls_out() {
            self.core.recent_settings(&call.run.tenant).await
        } else {
            // Nothing from outside is returned.
            Ok(Tenant::new(call.run.tenant.clone()))
        };
        let settings = match settings {
            Ok(settings) => settings,
            Err(error) => return not_read(&error),
        };
        let connected = self.core.connections.connect_with_credential(
            &settings,
            tool,
            (connection.as_ref(), self.core.now()),
        );
        let connected = connected.await;
        // An error means that the work ends anyway.
        let _ = lease_end.wait_for(|end| Instant::now() < *end).await;
        match connected {
            Ok(tool) => tool.call(held.grant.mode, call).await,
            // Nothing was sent.
            Err(CredentialFailure::Retryable(failure, retry_after)) => {
                ToolOutcome::Retryable { failure, certainty: EffectOutcome::DidNotHappen, retry_after }
            }
            Err(CredentialFailure::Terminal(failure)) => ToolOutcome::Terminal(failure),
        }
    }
}

/// The settings of the tenant could not be read, and nothing was sent.
fn not_read(error: &EngineError) -> ToolOutcome {
    let failure =
        Failure::new("SETTINGS_UNREADABLE", format!("the settings of the tenant cannot be read: {error}"));
    ToolOutcome::Retryable { failure, certainty: EffectOutcome::DidNotHappen, retry_after: None }
}

/// The inverse call with the connection that the effect used, and its address: a connection that was moved to another
/// system must not be used to restore this one.
fn on_connection(mut inverse: Value, connection: Option<&ResolvedConnection>) -> Value {
    if let (Some(resolved), Some(call)) = (connection, inverse.as_object_mut()) {
        call.insert("connection".to_owned(), resolved.name.as_str().into());
        call.insert("base_url".to_owned(), resolved.connection.base_url.as_str().into());
    }
    inverse
}

fn canceled() -> ToolOutcome {
    let failure = Failure::new("CANCELED", "the run is being canceled");
    ToolOutcome::Retryable { failure, certainty: EffectOutcome::DidNotHappen, retry_after: None }
}

fn advanced(retried: RetryResult) -> Option<AfterStep> {
    match retried {
        RetryResult::Scheduled(_) => None,
        RetryResult::NotRetried(advanced) => Some(advanced),
    }
}

fn check_storable(output: &Value) -> Result<(), Failure> {
    json::check(output).map_err(|error| Failure::new(failure::OUTPUT_INVALID, error.to_string()))?;
    let bytes = serde_json::to_vec(output).map_or(usize::MAX, |bytes| bytes.len());
    if bytes > json::BYTES_MAX {
        let message = format!("the output has {bytes} bytes; the limit is {}", json::BYTES_MAX);
        return Err(Failure::new(failure::OUTPUT_INVALID, message));
    }
    Ok(())
}

/// The external system's response is stored for people to read. One that cannot be hashed is dropped.
fn storable_or_dropped(response: Value) -> Value {
    match check_storable(&response) {
        Ok(()) => response,
        Err(failure) => dropped_output(&failure.message),
    }
}

fn dropped_output(why: &str) -> Value {
    serde_json::json!({ "output_dropped": why })
}
