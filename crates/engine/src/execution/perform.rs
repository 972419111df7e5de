//! Performs a claimed step: calls the tool, renews the lease meanwhile, and commits the outcome.

use connectors::{LookUpResult, ToolCall, ToolOutcome, ToolResult, in_trace};
use domain::command::{
    Advanced, AttemptMode, Certainty, Command as _, Fail, Finish, Renew, Retry, RetryResult,
};
use domain::payload::Fingerprint;
use domain::{
    Charge, Draft, Failure, Fence, Initiator, Millis, Payload, Refusal, StepSeq, TenantId, failure, json,
};
use serde_json::Value;
use store::{Store, StoreError};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::core::Loaded;
use crate::core::commit::{Committed, ROUNDS_MAX};
use crate::error::EngineError;
use crate::execution::ExecutionService;
use crate::execution::advance::{HandOff, LeasedStep, RunDriver, RunPosition, Shutdown};

/// How work on a held step ended.
enum StepWork {
    Done(Loaded, CallOutcome),
    /// Another worker holds the step.
    Lost(Loaded),
}

/// The outcome of a tool call.
enum CallOutcome {
    /// It succeeded, and its output is stored.
    Done(Box<StoredResult>),
    /// It failed and may be retried.
    Retry { failure: Failure, certainty: Certainty, retry_after: Option<Millis> },
    /// It failed for good.
    Failed(Failure),
}

/// A tool's result with its stored output.
struct StoredResult {
    done: ToolResult,
    output: Payload,
    fingerprint: Fingerprint,
}

/// The result of a lease renewal.
pub(crate) enum Renewal {
    Renewed {
        loaded: Loaded,
        cancel_requested: bool,
    },
    /// Another worker holds the step.
    Lost(Loaded),
    /// The store did not reply. The lease may still be held.
    NoReply,
}

impl<S: Store> ExecutionService<'_, S> {
    /// Performs a held step and commits its outcome.
    pub(crate) async fn work<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: Loaded,
        held: LeasedStep,
    ) -> Result<RunPosition, EngineError> {
        let effect = held.effect();
        match self.perform_under_lease(loaded, &held).await? {
            StepWork::Lost(loaded) => Ok(RunPosition::Free(loaded)),
            StepWork::Done(loaded, CallOutcome::Done(stored)) => {
                self.done(driver, loaded, held, *stored).await
            }
            StepWork::Done(loaded, CallOutcome::Retry { failure, certainty, retry_after }) => {
                let command = Retry {
                    fence: held.grant.fence,
                    failure,
                    // An earlier attempt may have acted, even if this one did not.
                    certainty: if held.grant.mode == AttemptMode::Fresh {
                        certainty
                    } else {
                        Certainty::MayHaveHappened
                    },
                    retry_after,
                    receipt: held.grant.receipt,
                };
                self.conclude(loaded, effect, HandOff::Leave, |draft| {
                    command.clone().decide(draft).map(advanced)
                })
                .await
            }
            StepWork::Done(loaded, CallOutcome::Failed(failure)) => {
                self.terminal(loaded, held, failure).await
            }
        }
    }

    async fn done<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: Loaded,
        held: LeasedStep,
        StoredResult { done, output, fingerprint }: StoredResult,
    ) -> Result<RunPosition, EngineError> {
        let effect = held.effect();
        driver.cache.remember(&loaded, held.seq, &done.output);
        let follow = self.follow_soon(driver, &loaded, held.seq.next()).await;
        let command = Finish {
            fence: held.grant.fence,
            output,
            fingerprint,
            response: storable_or_dropped(done.response),
            inverse: done.inverse.filter(|inverse| json::check(inverse).is_ok()),
            cost_microusd: done.cost_microusd,
            usage: done.usage,
            receipt: held.grant.receipt,
        };
        self.conclude(loaded, effect, follow, |draft| command.clone().decide(draft).map(Some)).await
    }

    /// What follows the step, if that is known soon. The lease of the step is not renewed meanwhile, so its outcome
    /// must not wait for a slow external system, nor fail with the next step.
    async fn follow_soon<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: &Loaded,
        seq: StepSeq,
    ) -> HandOff {
        let known = timeout(self.core.timing.renew_every.std(), self.follow(driver, loaded, seq)).await;
        match known {
            Ok(Ok(follow)) => follow,
            Ok(Err(error)) => {
                tracing::warn!(event = "next_step_not_prepared", %error, run = %loaded.record.key, "next step not prepared");
                HandOff::Leave
            }
            Err(_) => HandOff::Leave,
        }
    }

    async fn terminal(
        self,
        loaded: Loaded,
        held: LeasedStep,
        failure: Failure,
    ) -> Result<RunPosition, EngineError> {
        let effect = held.effect();
        if held.grant.mode != AttemptMode::Fresh && held.grant.receipt.is_some() {
            // This attempt did nothing, but an earlier one may have acted: the outcome is not known to be a failure.
            let command = Retry {
                fence: held.grant.fence,
                failure,
                certainty: Certainty::MayHaveHappened,
                retry_after: None,
                receipt: held.grant.receipt,
            };
            return self
                .conclude(loaded, effect, HandOff::Leave, |draft| command.clone().decide(draft).map(advanced))
                .await;
        }
        let command = Fail { fence: Some(held.grant.fence), failure, receipt: held.grant.receipt };
        self.conclude(loaded, effect, HandOff::Leave, |draft| command.clone().decide(draft).map(Some)).await
    }

    /// Performs the step and renews the lease until the tool returns. A lost lease ends the work at once. So does a lease
    /// that could not be renewed before it expired.
    async fn perform_under_lease(
        self,
        mut loaded: Loaded,
        held: &LeasedStep,
    ) -> Result<StepWork, EngineError> {
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
        let act = in_trace(loaded.record.trace_context().next(&attempt), self.act(held, call));
        tokio::pin!(act);
        let (lease, heartbeat) = (self.core.timing.lease.std(), self.core.timing.renew_every.std());
        let (mut lease_ends, mut renew_at) = (held.since + lease, held.since + heartbeat);
        // A lease that expired while its claim was being written is renewed before the tool starts.
        let mut expired = Instant::now() >= lease_ends;
        loop {
            tokio::select! {
                biased;
                acted = &mut act, if !expired => return Ok(StepWork::Done(loaded, acted?)),
                () = sleep_until(renew_at), if !expired => {}
                else => lease_ends = Instant::now() + lease,
            }
            // The ledger counts the new lease from before the write, so this process counts from before it asks.
            let asked_at = Instant::now();
            let renewal = timeout_at(lease_ends, Box::pin(self.renew_lease(&loaded, held.grant.fence)));
            let renewal = tokio::select! {
                biased;
                // The record's version guards the outcome, whether or not the renewal lands as well.
                acted = &mut act, if !expired => return Ok(StepWork::Done(loaded, acted?)),
                renewal = renewal => renewal.unwrap_or(Ok(Renewal::NoReply)),
            };
            match renewal? {
                Renewal::Renewed { loaded: now, cancel_requested } => {
                    (loaded, expired, lease_ends) = (now, false, asked_at + lease);
                    if cancel_requested && held.grant.receipt.is_none() {
                        return Ok(StepWork::Done(loaded, stopped()));
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

    /// Calls the tool as the grant's mode requires, and stores its output.
    async fn act(self, held: &LeasedStep, call: ToolCall<'_>) -> Result<CallOutcome, EngineError> {
        let run = call.run;
        match act(held, call).await {
            ToolOutcome::Done(done) => self.store_output(&run.tenant, held, done).await,
            ToolOutcome::Retryable { failure, certainty, retry_after } => {
                Ok(CallOutcome::Retry { failure, certainty, retry_after })
            }
            ToolOutcome::Terminal(failure) => Ok(CallOutcome::Failed(failure)),
        }
    }

    async fn store_output(
        self,
        tenant: &TenantId,
        held: &LeasedStep,
        mut done: ToolResult,
    ) -> Result<CallOutcome, EngineError> {
        match acceptable(&done.output) {
            Ok(()) => {}
            // The effect happened. An output that cannot be stored must not lose the record of it.
            Err(failure) if held.grant.receipt.is_some() => done.output = failure_as_output(&failure),
            Err(failure) => {
                let charge = Charge { cost_microusd: done.cost_microusd, usage: done.usage };
                return Ok(CallOutcome::Failed(failure.charged(charge)));
            }
        }
        let give_up_at = Instant::now() + self.core.timing.work_max.std();
        let (output, fingerprint) = loop {
            match self.core.put_payload(tenant, &done.output).await {
                // An effect's outcome is not dropped because its output cannot be stored now; the lease is renewed
                // meanwhile. A read can be repeated, and gives up after the longest time a tool may take.
                Err(EngineError::Store(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. })))
                    if held.grant.receipt.is_some() || Instant::now() < give_up_at =>
                {
                    tracing::warn!(event = "output_not_stored", %error, "output not stored yet; retrying");
                    sleep(self.core.timing.renew_every.std()).await;
                }
                stored => break stored?,
            }
        };
        Ok(CallOutcome::Done(Box::new(StoredResult { done, output, fingerprint })))
    }

    /// Extends the lease on the step.
    pub(crate) async fn renew_lease(self, loaded: &Loaded, fence: Fence) -> Result<Renewal, EngineError> {
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
                Ok(Committed::Yes(now)) => {
                    return Ok(Renewal::Renewed { loaded: now, cancel_requested: renewed.cancel_requested });
                }
                Ok(Committed::Overtaken(now)) => loaded = now,
                Err(EngineError::Store(error)) => {
                    tracing::warn!(event = "lease_not_renewed", %error, "lease not renewed");
                    return Ok(Renewal::NoReply);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Renewal::NoReply)
    }
}

/// Calls the tool as the grant's mode requires.
async fn act(held: &LeasedStep, call: ToolCall<'_>) -> ToolOutcome {
    let tool = &held.proposal.tool;
    match held.grant.mode {
        AttemptMode::Fresh | AttemptMode::Repeat => tool.perform(call).await,
        AttemptMode::LookUp => {
            // Fence out the previous holder first: a look-up proves nothing while that one can still act.
            if let Err(failure) = tool.fence_out(call.clone()).await {
                return unclear(failure);
            }
            match tool.look_up(call.clone()).await {
                LookUpResult::Found(done) => ToolOutcome::Done(done),
                // No attempt has acted, and no earlier one can any more: this is a first attempt.
                LookUpResult::Absent => tool.perform(ToolCall { again: false, ..call }).await,
                LookUpResult::Unclear(failure) => unclear(failure),
            }
        }
    }
}

fn unclear(failure: Failure) -> ToolOutcome {
    ToolOutcome::Retryable { failure, certainty: Certainty::MayHaveHappened, retry_after: None }
}

fn stopped() -> CallOutcome {
    let failure = Failure::new("CANCELED", "the run is being canceled");
    CallOutcome::Retry { failure, certainty: Certainty::DidNotHappen, retry_after: None }
}

fn advanced(retried: RetryResult) -> Option<Advanced> {
    match retried {
        RetryResult::Scheduled(_) => None,
        RetryResult::NotRetried(advanced) => Some(advanced),
    }
}

fn acceptable(output: &Value) -> Result<(), Failure> {
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
    match acceptable(&response) {
        Ok(()) => response,
        Err(failure) => failure_as_output(&failure),
    }
}

fn failure_as_output(failure: &Failure) -> Value {
    serde_json::json!({ "output_dropped": failure.message })
}
