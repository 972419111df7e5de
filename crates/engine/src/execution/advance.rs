//! Advances a run: the worker that receives a run's message takes it step by step as far as it can.
//!
//! For each step the driver claims it, performs it, and commits the outcome together with the claim of the next step,
//! without going back to the queue. A driver is limited in steps and time so that no run starves the others, and
//! stops at the next commit when its process shuts down.

use domain::command::{
    AfterStep, Claim, ClaimResult, Command as _, Fail, Grant, OpenGate, OpenWait, RemindApprovers, TakeOver,
    TimeOut,
};
use domain::next::{Next, next};
use domain::plan::Work;
use domain::record::Signal;
use domain::{
    Cause, Decision, Draft, Fence, Initiator, Job, Millis, Outgoing, QueueName, Refusal, RunKey, RunRecord,
    RunStatus, StepSeq, StepState, Verdict, Version,
};
use store::{Store, StoreError};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::core::commit::{CommitResult, ROUNDS_MAX};
use crate::core::{AdvanceResult, LoadedRun};
use crate::error::{EngineError, error_chain};
use crate::execution::ExecutionService;
use crate::execution::bind::{BindError, NotProposed, Proposal, RunCache};
use crate::execution::perform::Renewal;

/// How far one call advances a run before other runs get a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvanceLimits {
    pub steps: u32,
    pub time: Millis,
}

impl Default for AdvanceLimits {
    fn default() -> Self {
        // Enough for the longest run if its steps are quick; a slow run takes turns.
        Self { steps: 64, time: Millis::secs(20) }
    }
}

/// How long a claim is repeated while the store is busy. Each repetition checks again whether dispatch was stopped.
const CLAIM_REPEATED_FOR: Millis = Millis::secs(3);

/// Whether the process was asked to stop.
pub trait Shutdown: Send + Sync {
    /// Whether the driver should stop at the next commit.
    fn is_requested(&self) -> bool;
}

/// Never shuts down.
impl Shutdown for () {
    fn is_requested(&self) -> bool {
        false
    }
}

impl Shutdown for CancellationToken {
    fn is_requested(&self) -> bool {
        self.is_cancelled()
    }
}

/// Where a driver is in a run.
pub(crate) enum RunPosition {
    /// No step is held.
    Free(LoadedRun),
    /// A step is held under a lease.
    Holding(LoadedRun, Box<LeasedStep>),
}

/// A step under a lease.
pub(crate) struct LeasedStep {
    pub(crate) seq: StepSeq,
    pub(crate) grant: Grant,
    pub(crate) proposal: Proposal,
    /// Taken before the claim was sent: the ledger counts the lease from before the write.
    pub(crate) since: Instant,
}

/// What identifies a held step when it ends.
pub(crate) struct LeasedEffect {
    pub(crate) fence: Fence,
    /// Whether the step may have changed an external system.
    pub(crate) has_effect: bool,
    /// The verdict on a read. That on an effect is in the chain since the claim.
    pub(crate) read_verdict: Option<Verdict>,
}

impl LeasedStep {
    pub(crate) fn effect(&self) -> LeasedEffect {
        let has_effect = self.grant.receipt.is_some();
        let verdict = self.proposal.assessment.as_ref().map(|assessment| &assessment.verdict);
        let read_verdict = verdict.filter(|_| !has_effect).cloned();
        LeasedEffect { fence: self.grant.fence, has_effect, read_verdict }
    }
}

/// Advances one run.
pub(crate) struct RunDriver<'h, H> {
    pub(crate) shutdown: &'h H,
    pub(crate) cache: RunCache,
    limits: AdvanceLimits,
    steps: u32,
    until: Instant,
    /// The record's version when the driver started.
    initial_version: Version,
    /// Since when no claim could be written.
    claims_fail_since: Option<Instant>,
}

impl<H: Shutdown> RunDriver<'_, H> {
    /// Whether another step may be started.
    pub(crate) fn may_continue(&self) -> bool {
        !self.shutdown.is_requested() && self.steps < self.limits.steps && Instant::now() < self.until
    }

    /// Whether a claim that the store was too busy to write is repeated.
    fn may_repeat_claim(&mut self) -> bool {
        let since = *self.claims_fail_since.get_or_insert_with(Instant::now);
        since.elapsed() < CLAIM_REPEATED_FOR.std()
    }
}

/// What happens to the next step in the commit that ends the current one.
pub(crate) enum HandOff {
    /// The same worker claims it.
    Claim(StepSeq, Box<Proposal>),
    /// It waits for an event.
    OpenWait(Option<Signal>),
    /// It asks for an approval.
    OpenGate(String),
    /// It is left to the worker that receives the message.
    None,
}

/// Whether this starts something. Timeouts are processed while dispatch is stopped.
fn starts_work(todo: Next) -> bool {
    match todo {
        Next::Claim | Next::TakeOver | Next::OpenWait | Next::OpenGate => true,
        Next::TimeOut | Next::RemindApprovers | Next::Nothing | Next::NotBefore(_) => false,
    }
}

impl NotProposed {
    /// Fails or postpones a step whose action cannot be determined.
    fn apply_to(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        match self {
            Self::Permanent(failure) => Fail { fence: None, failure, receipt: None }.decide(draft).map(drop),
            Self::Transient(postpone) => postpone.decide(draft).map(drop),
        }
    }
}

impl<S: Store> ExecutionService<'_, S> {
    /// Advances `run` until it ends, waits, reaches a limit, or the process shuts down.
    pub async fn advance<H: Shutdown>(
        self,
        run: &RunKey,
        shutdown: &H,
        limits: AdvanceLimits,
    ) -> Result<AdvanceResult, EngineError> {
        let loaded = match self.core.load(run).await {
            Ok(loaded) => loaded,
            Err(EngineError::NoRun { .. }) => return Ok(AdvanceResult::Done),
            Err(error) => return Err(error),
        };
        if loaded.record.status.is_terminal() {
            self.request_evidence(run).await?;
            return Ok(AdvanceResult::Done);
        }
        let until = Instant::now() + limits.time.std();
        let initial_version = loaded.record.version;
        let mut driver = RunDriver {
            shutdown,
            cache: RunCache::default(),
            limits,
            steps: 0,
            until,
            initial_version,
            claims_fail_since: None,
        };
        let mut position = RunPosition::Free(loaded);
        loop {
            position = match position {
                RunPosition::Free(loaded) => {
                    let todo = next(&loaded.record, loaded.plan.plan(), self.core.now());
                    match todo {
                        Next::Nothing => return Ok(AdvanceResult::Done),
                        Next::NotBefore(at) => return Ok(AdvanceResult::NotBefore(at)),
                        _ if !driver.may_continue() => {
                            return Ok(self.result_at_limit(driver.initial_version, &loaded.record));
                        }
                        // The run stays due. Starting dispatch enqueues it again.
                        todo if starts_work(todo) && !self.core.may_start_work(&loaded.record).await? => {
                            return Ok(AdvanceResult::Done);
                        }
                        todo => self.apply_next(&mut driver, loaded, todo).await?,
                    }
                }
                RunPosition::Holding(loaded, held) => {
                    (driver.steps, driver.claims_fail_since) = (driver.steps + 1, None);
                    self.perform_step(&mut driver, loaded, *held).await?
                }
            };
        }
    }

    /// Sends the evidence job of an ended run, unless its evidence exists. The process that ended the run may have
    /// died before it sent one.
    async fn request_evidence(self, run: &RunKey) -> Result<(), EngineError> {
        if self.core.retry_busy(|store| store.evidence(run)).await?.is_some() {
            return Ok(());
        }
        let message =
            Outgoing { run: run.clone(), queue: QueueName::Steps, job: Job::BuildEvidence, delay: Millis(0) };
        Ok(self.core.retry_busy(|store| store.send(&message)).await?)
    }

    /// The driver reached its limits. If a commit of this driver left a step ready, that commit sent a message.
    /// Otherwise this message may be the only one, and is returned to the queue.
    fn result_at_limit(self, initial_version: Version, record: &RunRecord) -> AdvanceResult {
        match &record.step_state {
            StepState::Ready { .. } | StepState::Retrying { .. } if record.version > initial_version => {
                AdvanceResult::Done
            }
            _ => AdvanceResult::NotBefore(self.core.now()),
        }
    }

    fn initiator(self) -> Initiator {
        Initiator::new(Cause::System, self.core.me.as_str())
    }

    /// Does what is due on a step that no worker holds.
    async fn apply_next<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: LoadedRun,
        todo: Next,
    ) -> Result<RunPosition, EngineError> {
        match todo {
            Next::Claim | Next::TakeOver => self.claim(driver, loaded, todo == Next::TakeOver).await,
            Next::OpenWait | Next::OpenGate => {
                let seq = loaded.record.at;
                let hand_off = self.prepare_step(driver, &loaded, seq).await;
                self.open_step(loaded, hand_off).await
            }
            Next::TimeOut => self.decide_timeout(loaded, |draft| TimeOut.decide(draft).map(drop)).await,
            Next::RemindApprovers => self.decide_timeout(loaded, |draft| RemindApprovers.decide(draft)).await,
            Next::Nothing | Next::NotBefore(_) => Ok(RunPosition::Free(loaded)),
        }
    }

    async fn claim<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: LoadedRun,
        take_over: bool,
    ) -> Result<RunPosition, EngineError> {
        let seq = loaded.record.at;
        let proposal = match self.bind(&loaded, &mut driver.cache, seq).await {
            Ok(proposal) => proposal,
            Err(BindError::NotProposed(unbound)) => {
                return self
                    .decide_once(loaded, &self.initiator(), |draft| unbound.apply_to(draft).map(|()| None))
                    .await;
            }
            Err(BindError::Failed(error)) => return Err(error),
        };
        // The tool and the policy may have taken long, and dispatch may have been stopped meanwhile.
        if !self.core.may_start_work(&loaded.record).await? {
            return Ok(RunPosition::Free(loaded));
        }
        let claim = self.claim_command(&proposal);
        let since = Instant::now();
        let position = |claimed| match claimed {
            ClaimResult::Granted(grant) => Some(Box::new(LeasedStep { seq, grant: *grant, proposal, since })),
            ClaimResult::Resolved(_) | ClaimResult::Deferred(_) | ClaimResult::AwaitingApproval => None,
        };
        let (run, by) = (loaded.record.key.clone(), self.initiator());
        let claimed = self.decide_once(loaded, &by, |draft| {
            let claimed = if take_over { TakeOver(claim).decide(draft) } else { claim.decide(draft) };
            claimed.map(position)
        });
        match claimed.await {
            // Nothing was written. The driver reads the dispatch switch again before it repeats the claim.
            Err(EngineError::Store(StoreError::Busy { .. })) if driver.may_repeat_claim() => {
                self.core.load(&run).await.map(RunPosition::Free)
            }
            claimed => claimed,
        }
    }

    fn claim_command(self, proposal: &Proposal) -> Claim {
        Claim {
            owner: self.core.me.clone(),
            lease: self.core.timing.lease,
            action: proposal.action.clone(),
            receipt: proposal.receipt.clone(),
            abandoned: proposal.abandoned,
            assessment: proposal.assessment.clone(),
            departed: proposal.departed.clone(),
        }
    }

    async fn decide_timeout(
        self,
        loaded: LoadedRun,
        decide: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal>,
    ) -> Result<RunPosition, EngineError> {
        let by = Initiator::new(Cause::Timeout, self.core.me.as_str());
        self.decide_once(loaded, &by, |draft| decide(draft).map(|()| None)).await
    }

    async fn open_step(
        self,
        loaded: LoadedRun,
        hand_off: Result<HandOff, BindError>,
    ) -> Result<RunPosition, EngineError> {
        let hand_off = match hand_off {
            Ok(hand_off) => Ok(hand_off),
            Err(BindError::NotProposed(unbound)) => Err(unbound),
            Err(BindError::Failed(error)) => return Err(error),
        };
        self.decide_once(loaded, &self.initiator(), |draft| match hand_off {
            Ok(HandOff::OpenWait(buffered)) => OpenWait { buffered }.decide(draft).map(|_| None),
            Ok(HandOff::OpenGate(message)) => OpenGate { message }.decide(draft).map(|_| None),
            Ok(HandOff::Claim(..) | HandOff::None) => {
                Err(Refusal::WrongState { expected: "a wait or a gate" })
            }
            Err(unbound) => unbound.apply_to(draft).map(|()| None),
        })
        .await
    }

    /// Decides once and commits. After a conflict the driver continues from the new state.
    async fn decide_once(
        self,
        loaded: LoadedRun,
        by: &Initiator,
        decide: impl FnOnce(&mut Draft<'_>) -> Result<Option<Box<LeasedStep>>, Refusal>,
    ) -> Result<RunPosition, EngineError> {
        let (held, decision) = {
            let mut draft = self.core.draft(&loaded, by);
            match decide(&mut draft) {
                Ok(held) => (held, draft.close()),
                // The refusal is due to the state on record, and time passes between reading and deciding: read
                // again.
                Err(Refusal::LeaseHeld { .. } | Refusal::NotBefore { .. } | Refusal::StaleFence { .. }) => {
                    return self.core.load(&loaded.record.key).await.map(RunPosition::Free);
                }
                Err(refusal) => return Err(refusal.into()),
            }
        };
        let committed = match &held {
            Some(_) => self.core.commit_start(&loaded, decision).await,
            None => self.core.commit(&loaded, decision).await,
        };
        match committed {
            Ok(CommitResult::Committed(now)) => Ok(match held {
                Some(held) => RunPosition::Holding(now, held),
                None => RunPosition::Free(now),
            }),
            Ok(CommitResult::Superseded(now)) => Ok(RunPosition::Free(now)),
            Err(error) => Err(error),
        }
    }

    /// What can be done with the step at `seq` in the commit that makes it ready.
    pub(crate) async fn prepare_hand_off<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: &LoadedRun,
        seq: StepSeq,
    ) -> Result<HandOff, EngineError> {
        let record = &loaded.record;
        // A cancel or pause request changes what comes next, and a rollback goes backwards: both start from a fresh
        // read.
        let can_hand_off = record.cancel.is_none() && record.pause.is_none() && !record.is_rolling_back();
        if !can_hand_off || !driver.may_continue() || loaded.plan.plan().step(seq).is_none() {
            return Ok(HandOff::None);
        }
        if !self.core.may_start_work(record).await? {
            return Ok(HandOff::None);
        }
        match self.prepare_step(driver, loaded, seq).await {
            // It may have taken long, and dispatch may have been stopped meanwhile.
            Ok(_) if !self.core.may_start_work(record).await? => Ok(HandOff::None),
            Ok(hand_off) => Ok(hand_off),
            Err(BindError::NotProposed(_)) => Ok(HandOff::None),
            Err(BindError::Failed(error)) => Err(error),
        }
    }

    async fn prepare_step<H: Shutdown>(
        self,
        driver: &mut RunDriver<'_, H>,
        loaded: &LoadedRun,
        seq: StepSeq,
    ) -> Result<HandOff, BindError> {
        match loaded.plan.plan().step(seq).map(|step| &step.work) {
            Some(Work::Call(_)) => {
                let proposal = self.bind(loaded, &mut driver.cache, seq).await?;
                Ok(HandOff::Claim(seq, Box::new(proposal)))
            }
            Some(Work::Wait { event, .. }) => {
                let buffered = loaded.record.buffered_signals.iter().find(|signal| signal.event == *event);
                let Some(buffered) = buffered else { return Ok(HandOff::OpenWait(None)) };
                let run = &loaded.record.key;
                let signal = self.core.retry_busy(|store| store.signal(run, &buffered.signal)).await?;
                Ok(HandOff::OpenWait(signal))
            }
            Some(Work::Gate { .. }) => {
                self.gate_message(loaded, &mut driver.cache, seq).await.map(HandOff::OpenGate)
            }
            None => Ok(HandOff::None),
        }
    }

    /// Ends a held step together with what follows it. The outcome of an effect is not dropped because the store cannot
    /// record it now, for example because its disk is full: the lease is renewed, and the outcome is recorded later.
    pub(crate) async fn record_outcome(
        self,
        mut loaded: LoadedRun,
        held: LeasedEffect,
        mut hand_off: HandOff,
        end: impl Fn(&mut Draft<'_>) -> Result<Option<AfterStep>, Refusal>,
    ) -> Result<RunPosition, EngineError> {
        let give_up_at = Instant::now() + self.core.timing.work_max.std();
        loop {
            let ended = self.try_conclude(loaded.clone(), hand_off, &held, &end).await;
            let Err(EngineError::Store(error)) = ended else { return ended };
            if !held.has_effect || Instant::now() >= give_up_at {
                return Err(error.into());
            }
            let (run, error) = (&loaded.record.key, error_chain(&error));
            tracing::warn!(event = "outcome_not_recorded", %run, error, "outcome not recorded yet; retrying");
            sleep(self.core.timing.renew_every.std()).await;
            match self.renew_lease(&loaded, held.fence).await? {
                Renewal::Renewed { loaded: now, .. } => loaded = now,
                Renewal::Lost(now) => return Ok(RunPosition::Free(now)),
                Renewal::NoReply => {}
            }
            hand_off = HandOff::None;
        }
    }

    /// `end` is decided again after each conflict. If the lease was lost there is nothing left to end.
    async fn try_conclude(
        self,
        mut loaded: LoadedRun,
        mut hand_off: HandOff,
        held: &LeasedEffect,
        end: &impl Fn(&mut Draft<'_>) -> Result<Option<AfterStep>, Refusal>,
    ) -> Result<RunPosition, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let concluded = self.decide_end(&loaded, &hand_off, held, end);
            let (held, decision) = match concluded {
                Ok(concluded) => concluded,
                Err(Refusal::StaleFence { .. } | Refusal::Terminal { .. }) => {
                    return Ok(RunPosition::Free(loaded));
                }
                Err(refusal) => return Err(refusal.into()),
            };
            let committed = match &held {
                Some(_) => self.core.commit_start(&loaded, decision).await,
                None => self.core.commit(&loaded, decision).await,
            };
            match committed {
                Ok(CommitResult::Committed(now)) => {
                    return Ok(match held {
                        Some(held) => RunPosition::Holding(now, held),
                        None => RunPosition::Free(now),
                    });
                }
                // Another process may have written the next step's receipt. Ending this step must not depend on that,
                // so what follows is prepared again later.
                Ok(CommitResult::Superseded(now)) => {
                    loaded = now;
                    hand_off = HandOff::None;
                }
                // Nothing was written. The outcome is recorded without a claim, because dispatch may have been stopped.
                Err(EngineError::Store(StoreError::Busy { .. })) if held.is_some() => {
                    hand_off = HandOff::None;
                }
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::Contended { run: loaded.record.key.clone(), rounds: ROUNDS_MAX })
    }

    fn decide_end(
        self,
        loaded: &LoadedRun,
        hand_off: &HandOff,
        held: &LeasedEffect,
        end: &impl Fn(&mut Draft<'_>) -> Result<Option<AfterStep>, Refusal>,
    ) -> Result<(Option<Box<LeasedStep>>, Decision), Refusal> {
        let (by, since) = (self.initiator(), Instant::now());
        let new_draft = || self.core.draft(loaded, &by).with_read_verdict(held.read_verdict.clone());
        let mut draft = new_draft();
        let advanced = end(&mut draft)?;
        let can_hand_off = advanced == Some(AfterStep::Ready) && draft.record.status == RunStatus::Running;
        match can_hand_off.then(|| self.apply_hand_off(&mut draft, hand_off, since)) {
            Some(Ok(held)) => Ok((held, draft.close())),
            None => Ok((None, draft.close())),
            // What follows has changed since it was prepared: end the step alone.
            Some(Err(_)) => {
                let mut draft = new_draft();
                end(&mut draft)?;
                Ok((None, draft.close()))
            }
        }
    }

    fn apply_hand_off(
        self,
        draft: &mut Draft<'_>,
        hand_off: &HandOff,
        since: Instant,
    ) -> Result<Option<Box<LeasedStep>>, Refusal> {
        match hand_off {
            HandOff::Claim(seq, proposal) => {
                let claimed = self.claim_command(proposal).decide(draft)?;
                Ok(match claimed {
                    ClaimResult::Granted(grant) => {
                        let proposal = *proposal.clone();
                        Some(Box::new(LeasedStep { seq: *seq, grant: *grant, proposal, since }))
                    }
                    ClaimResult::Resolved(_) | ClaimResult::Deferred(_) | ClaimResult::AwaitingApproval => {
                        None
                    }
                })
            }
            HandOff::OpenWait(buffered) => {
                OpenWait { buffered: buffered.clone() }.decide(draft).map(|_| None)
            }
            HandOff::OpenGate(message) => OpenGate { message: message.clone() }.decide(draft).map(|_| None),
            HandOff::None => Ok(None),
        }
    }
}
