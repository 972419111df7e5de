//! Work: a held step is done, under a heartbeat, and its outcome committed.

use connectors::{Call, Done, LookUp, Outcome};
use domain::command::{Advanced, Certainty, Command as _, Fail, Finish, Mode, Renew, Retried, Retry};
use domain::payload::Fingerprint;
use domain::{Draft, Failure, Initiator, Millis, Payload, Refusal, StepSeq, TenantId, failure, json};
use serde_json::Value;
use store::{Store, StoreError};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::advance::{Follow, Held, Hurry, RunDriver, RunPosition};
use crate::commit::{Committed, ROUNDS_MAX};
use crate::error::EngineError;
use crate::{Engine, Loaded};

/// How work on a held step ended, seen from the heartbeat.
enum Worked {
    /// Something came of it.
    Acted(Loaded, Acted),
    /// Somebody else holds the step.
    Lost(Loaded),
}

/// What came of a step.
enum Acted {
    /// It is done, and what it gave is kept where the record will point.
    Done(Box<Kept>),
    /// It may be tried again.
    Again { failure: Failure, certainty: Certainty, retry_after: Option<Millis> },
    /// It never will be.
    Never(Failure),
}

/// What a step gave.
struct Kept {
    done: Done,
    output: Payload,
    fingerprint: Fingerprint,
}

/// What a heartbeat found.
enum Beat {
    /// The step is still held.
    Alive { loaded: Loaded, cancel_requested: bool },
    /// Somebody else holds the step.
    Lost(Loaded),
    /// The store did not answer; the lease may still be ours.
    Silent,
}

impl<S: Store> Engine<S> {
    /// Does a held step and commits what came of it.
    pub(crate) async fn work<H: Hurry>(
        &self,
        driver: &mut RunDriver<'_, H>,
        loaded: Loaded,
        held: Held,
    ) -> Result<RunPosition, EngineError> {
        match self.act_under_heartbeat(loaded, &held).await? {
            Worked::Lost(loaded) => Ok(RunPosition::Free(loaded)),
            Worked::Acted(loaded, Acted::Done(kept)) => self.done(driver, loaded, held, *kept).await,
            Worked::Acted(loaded, Acted::Again { failure, certainty, retry_after }) => {
                let command = Retry {
                    fence: held.grant.fence,
                    failure,
                    // An earlier attempt may have acted, whatever this one knows about itself.
                    certainty: if held.grant.mode == Mode::Fresh {
                        certainty
                    } else {
                        Certainty::MayHaveHappened
                    },
                    retry_after,
                    receipt: held.grant.receipt,
                };
                self.conclude(loaded, Follow::Leave, |draft| command.clone().decide(draft).map(advanced))
                    .await
            }
            Worked::Acted(loaded, Acted::Never(failure)) => self.terminal(loaded, held, failure).await,
        }
    }

    async fn done<H: Hurry>(
        &self,
        driver: &mut RunDriver<'_, H>,
        loaded: Loaded,
        held: Held,
        Kept { done, output, fingerprint }: Kept,
    ) -> Result<RunPosition, EngineError> {
        driver.memory.remember(&loaded, held.seq, &done.output);
        let follow = self.follow_soon(driver, &loaded, held.seq.next()).await;
        let command = Finish {
            fence: held.grant.fence,
            output,
            fingerprint,
            response: kept_or_dropped(done.response),
            inverse: done.inverse.filter(|inverse| json::check(inverse).is_ok()),
            cost_microusd: done.cost_microusd,
            usage: done.usage,
            receipt: held.grant.receipt,
        };
        self.conclude(loaded, follow, |draft| command.clone().decide(draft).map(Some)).await
    }

    /// What follows, if that is known soon. Nobody beats for the step that has just ended, so its outcome must not wait
    /// for a system that is slow to say how things stand, let alone be lost with the next step's trouble.
    async fn follow_soon<H: Hurry>(
        &self,
        driver: &mut RunDriver<'_, H>,
        loaded: &Loaded,
        seq: StepSeq,
    ) -> Follow {
        let known = timeout(self.timing.heartbeat.std(), self.follow(driver, loaded, seq)).await;
        match known {
            Ok(Ok(follow)) => follow,
            Ok(Err(error)) => {
                tracing::warn!(%error, run = %loaded.record.key, "what follows is looked at afresh");
                Follow::Leave
            }
            Err(_) => Follow::Leave,
        }
    }

    async fn terminal(
        &self,
        loaded: Loaded,
        held: Held,
        failure: Failure,
    ) -> Result<RunPosition, EngineError> {
        if held.grant.mode != Mode::Fresh && held.grant.receipt.is_some() {
            // This attempt did nothing, but an earlier one may have: nobody can call that failed.
            let command = Retry {
                fence: held.grant.fence,
                failure,
                certainty: Certainty::MayHaveHappened,
                retry_after: None,
                receipt: held.grant.receipt,
            };
            return self
                .conclude(loaded, Follow::Leave, |draft| command.clone().decide(draft).map(advanced))
                .await;
        }
        let command = Fail { fence: Some(held.grant.fence), failure, receipt: held.grant.receipt };
        self.conclude(loaded, Follow::Leave, |draft| command.clone().decide(draft).map(Some)).await
    }

    /// Acts, and shows that it is alive while it does. Losing the lease ends the work at once; so does
    /// not being able to show it until the lease has run out.
    async fn act_under_heartbeat(&self, mut loaded: Loaded, held: &Held) -> Result<Worked, EngineError> {
        let run = loaded.record.key.clone();
        let Some(step) = loaded.plan.plan().step(held.seq).map(|step| step.id.clone()) else {
            return Ok(Worked::Lost(loaded));
        };
        let call = Call {
            run: &run,
            step: &step,
            action: &held.proposal.action,
            fence: held.grant.fence,
            again: held.grant.mode != Mode::Fresh,
            time_left: self.timing.work_max.std(),
        };
        let act = self.act(held, call);
        tokio::pin!(act);
        let mut lease_ends = held.since + self.timing.lease.std();
        let mut beat_at = held.since + self.timing.heartbeat.std();
        // A lease that ran out while it was being written is asked for anew before anything is done under it.
        if Instant::now() >= lease_ends {
            let began = Instant::now();
            lease_ends = began + self.timing.lease.std();
            match timeout_at(lease_ends, Box::pin(self.beat(&loaded, held)))
                .await
                .unwrap_or(Ok(Beat::Silent))?
            {
                Beat::Alive { loaded: now, .. } => loaded = now,
                Beat::Lost(now) => return Ok(Worked::Lost(now)),
                Beat::Silent => return Ok(Worked::Lost(loaded)),
            }
            beat_at = began + self.timing.heartbeat.std();
        }
        loop {
            tokio::select! {
                biased;
                acted = &mut act => return Ok(Worked::Acted(loaded, acted?)),
                () = sleep_until(beat_at) => {}
            }
            // Counted from before it is asked for: the ledger counts from before it is written.
            let began = Instant::now();
            beat_at = began + self.timing.heartbeat.std();
            let beat = timeout_at(lease_ends, Box::pin(self.beat(&loaded, held)));
            let beat = tokio::select! {
                biased;
                // Whether or not the sign of life lands as well, the version of the record guards what follows.
                acted = &mut act => return Ok(Worked::Acted(loaded, acted?)),
                beat = beat => beat.unwrap_or(Ok(Beat::Silent)),
            };
            match beat? {
                Beat::Alive { loaded: now, cancel_requested } => {
                    loaded = now;
                    lease_ends = began + self.timing.lease.std();
                    if cancel_requested && held.grant.receipt.is_none() {
                        return Ok(Worked::Acted(loaded, stopped()));
                    }
                }
                Beat::Lost(now) => return Ok(Worked::Lost(now)),
                Beat::Silent if Instant::now() >= lease_ends => return Ok(Worked::Lost(loaded)),
                Beat::Silent => {}
            }
        }
    }

    /// Does what the grant says, and keeps what it gives.
    async fn act(&self, held: &Held, call: Call<'_>) -> Result<Acted, EngineError> {
        let run = call.run;
        match act(held, call).await {
            Outcome::Done(done) => self.kept(&run.tenant, held, done).await,
            Outcome::Retryable { failure, certainty, retry_after } => {
                Ok(Acted::Again { failure, certainty, retry_after })
            }
            Outcome::Terminal(failure) => Ok(Acted::Never(failure)),
        }
    }

    async fn kept(&self, tenant: &TenantId, held: &Held, mut done: Done) -> Result<Acted, EngineError> {
        match acceptable(&done.output) {
            Ok(()) => {}
            // The effect happened; that its result cannot be kept must not undo the record of it.
            Err(failure) if held.grant.receipt.is_some() => done.output = failure_as_output(&failure),
            Err(failure) => return Ok(Acted::Never(failure)),
        }
        let give_up_at = Instant::now() + self.timing.work_max.std();
        let (output, fingerprint) = loop {
            match self.keep(tenant, &done.output).await {
                // What was done is not thrown away because its result cannot be kept for now; the step is held meanwhile.
                // What was only read can be read again, and makes way when it has waited for as long as it may work.
                Err(EngineError::Store(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. })))
                    if held.grant.receipt.is_some() || Instant::now() < give_up_at =>
                {
                    tracing::warn!(%error, "what a step gave was not kept yet");
                    sleep(self.timing.heartbeat.std()).await;
                }
                kept => break kept?,
            }
        };
        Ok(Acted::Done(Box::new(Kept { done, output, fingerprint })))
    }

    async fn beat(&self, loaded: &Loaded, held: &Held) -> Result<Beat, EngineError> {
        let mut loaded = loaded.clone();
        let by = Initiator::new(domain::Cause::System, self.me.as_str());
        for _ in 0..ROUNDS_MAX {
            let mut draft: Draft<'_> = self.draft(&loaded, &by);
            let renew = Renew { fence: held.grant.fence, lease: self.timing.lease };
            let renewed = match renew.decide(&mut draft) {
                Ok(renewed) => renewed,
                Err(Refusal::StaleFence { .. } | Refusal::Terminal { .. }) => return Ok(Beat::Lost(loaded)),
                Err(refusal) => return Err(refusal.into()),
            };
            let decision = draft.close();
            match self.commit(&loaded, decision).await {
                Ok(Committed::Yes(now)) => {
                    return Ok(Beat::Alive { loaded: now, cancel_requested: renewed.cancel_requested });
                }
                Ok(Committed::Overtaken(now)) => loaded = now,
                Err(EngineError::Store(error)) => {
                    tracing::warn!(%error, "heartbeat not written");
                    return Ok(Beat::Silent);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Beat::Silent)
    }
}

/// Does what the grant says.
async fn act(held: &Held, call: Call<'_>) -> Outcome {
    let tool = &held.proposal.tool;
    match held.grant.mode {
        Mode::Fresh | Mode::Again => tool.perform(call).await,
        Mode::LookUp => {
            // The old holder first: what is looked up while it can still act proves nothing.
            if let Err(failure) = tool.shut_out(call.clone()).await {
                return unclear(failure);
            }
            match tool.look_up(call.clone()).await {
                LookUp::Found(done) => Outcome::Done(done),
                // Nobody has acted, and nobody else can any more: this is a first attempt.
                LookUp::Absent => tool.perform(Call { again: false, ..call }).await,
                LookUp::Unclear(failure) => unclear(failure),
            }
        }
    }
}

fn unclear(failure: Failure) -> Outcome {
    Outcome::Retryable { failure, certainty: Certainty::MayHaveHappened, retry_after: None }
}

fn stopped() -> Acted {
    let failure = Failure::new("CANCELED", "somebody asked to stop the run");
    Acted::Again { failure, certainty: Certainty::DidNotHappen, retry_after: None }
}

fn advanced(retried: Retried) -> Option<Advanced> {
    match retried {
        Retried::At(_) => None,
        Retried::No(advanced) => Some(advanced),
    }
}

fn acceptable(output: &Value) -> Result<(), Failure> {
    json::check(output).map_err(|error| Failure::new(failure::OUTPUT_INVALID, error.to_string()))?;
    let bytes = serde_json::to_vec(output).map_or(usize::MAX, |bytes| bytes.len());
    if bytes > json::BYTES_MAX {
        let message = format!("the output has {bytes} bytes; at most {} are kept", json::BYTES_MAX);
        return Err(Failure::new(failure::OUTPUT_INVALID, message));
    }
    Ok(())
}

/// What the other side said is kept for people to read; what could not be hashed is not worth a bundle.
fn kept_or_dropped(response: Value) -> Value {
    match acceptable(&response) {
        Ok(()) => response,
        Err(failure) => failure_as_output(&failure),
    }
}

fn failure_as_output(failure: &Failure) -> Value {
    serde_json::json!({ "output_dropped": failure.message })
}
