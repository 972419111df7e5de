//! The walk: whoever holds a run's message takes the run as far as it will go.
//!
//! Step by step: look at what can be done now, claim it, do it, commit it together with the claim of the
//! next step, and so on without going back to the queue. A walk is bounded in steps and time, so that no
//! run starves the others, and it stops at the next commit when its process is asked to leave.

use domain::command::{
    Advanced, Claim, Claimed, Command as _, Fail, Grant, Nudge, OpenGate, OpenWait, TakeOver, TimeOut,
};
use domain::next::{Next, next};
use domain::plan::Work;
use domain::record::Signal;
use domain::{
    Cause, Decision, Draft, Initiator, Live, Millis, Refusal, RunKey, RunRecord, RunStatus, StepSeq,
    Timestamp, Version,
};
use store::Store;
use tokio::time::Instant;

use crate::binding::{Memory, Proposal, Unbound};
use crate::commit::{Committed, ROUNDS_MAX};
use crate::error::EngineError;
use crate::{Engine, Loaded};

/// How far a walk goes before it lets others have a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdvanceLimits {
    /// At most this many steps.
    pub steps: u32,
    /// For at most this long.
    pub time: Millis,
}

impl Default for AdvanceLimits {
    fn default() -> Self {
        // The longest run there can be, as long as its steps are quick; a slow one takes turns.
        Self { steps: 64, time: Millis::secs(20) }
    }
}

/// Whoever walks, as the engine sees them.
pub trait Hurry: Send + Sync {
    /// Whether the walk should stop at the next commit.
    fn is_leaving(&self) -> bool;
}

/// Nobody, who never leaves.
impl Hurry for () {
    fn is_leaving(&self) -> bool {
        false
    }
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvanceResult {
    /// There is nothing to do now; the message can go.
    Done,
    /// There is nothing to do before this time, and the message should come back then.
    NotBefore(Timestamp),
}

/// Where a walk stands.
pub(crate) enum RunPosition {
    /// Nothing is held.
    Free(Loaded),
    /// A step is held.
    Holding(Loaded, Box<Held>),
}

/// A step that is held.
pub(crate) struct Held {
    pub(crate) seq: StepSeq,
    pub(crate) grant: Grant,
    pub(crate) proposal: Proposal,
    /// Before it was claimed: the ledger counts the lease from before it is written.
    pub(crate) since: Instant,
}

/// A walk under way.
pub(crate) struct RunDriver<'h, H> {
    pub(crate) hurry: &'h H,
    pub(crate) memory: Memory,
    limits: AdvanceLimits,
    steps: u32,
    until: Instant,
    /// The record's version when the walk began.
    found: Version,
}

impl<H: Hurry> RunDriver<'_, H> {
    /// Whether another step may be begun.
    pub(crate) fn goes_on(&self) -> bool {
        !self.hurry.is_leaving() && self.steps < self.limits.steps && Instant::now() < self.until
    }
}

/// What is done with the step after one that ends, in the same commit.
pub(crate) enum Follow {
    /// It is claimed by the same worker.
    Claim(StepSeq, Box<Proposal>),
    /// It waits for its event.
    OpenWait(Option<Signal>),
    /// It asks its question.
    OpenGate(String),
    /// It is left for whoever gets the message.
    Leave,
}

/// Whether this begins something. That time passes cannot be stopped.
fn begins(todo: Next) -> bool {
    match todo {
        Next::Claim | Next::TakeOver | Next::OpenWait | Next::OpenGate => true,
        Next::TimeOut | Next::Nudge | Next::Nothing | Next::NotBefore(_) => false,
    }
}

impl Unbound {
    /// What becomes of a step of which it cannot be said what it would do.
    fn settle(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        match self {
            Self::Never(failure) => Fail { fence: None, failure, receipt: None }.decide(draft).map(drop),
            Self::Later(postpone) => postpone.decide(draft).map(drop),
        }
    }
}

impl<S: Store> Engine<S> {
    /// Takes `run` as far as it will go.
    pub async fn advance<H: Hurry>(
        &self,
        run: &RunKey,
        hurry: &H,
        limits: AdvanceLimits,
    ) -> Result<AdvanceResult, EngineError> {
        let loaded = match self.load(run).await {
            Ok(loaded) => loaded,
            Err(EngineError::NoRun { .. }) => return Ok(AdvanceResult::Done),
            Err(error) => return Err(error),
        };
        if loaded.record.status.is_terminal() {
            self.ask_for_evidence(run).await?;
            return Ok(AdvanceResult::Done);
        }
        let until = Instant::now() + limits.time.std();
        let found = loaded.record.version;
        let mut driver = RunDriver { hurry, memory: Memory::default(), limits, steps: 0, until, found };
        let mut position = RunPosition::Free(loaded);
        loop {
            position = match position {
                RunPosition::Free(loaded) => {
                    let todo = next(&loaded.record, loaded.plan.plan(), self.now());
                    match todo {
                        Next::Nothing => return Ok(AdvanceResult::Done),
                        Next::NotBefore(at) => return Ok(AdvanceResult::NotBefore(at)),
                        _ if !driver.goes_on() => return Ok(self.left_behind(driver.found, &loaded.record)),
                        // The run stays due, and whoever starts dispatch again announces it.
                        todo if begins(todo) && !self.may_begin(&loaded.record).await? => {
                            return Ok(AdvanceResult::Done);
                        }
                        todo => self.take(&mut driver, loaded, todo).await?,
                    }
                }
                RunPosition::Holding(loaded, held) => {
                    driver.steps += 1;
                    self.work(&mut driver, loaded, *held).await?
                }
            };
        }
    }

    /// The walk's turn is over. What a commit since the walk began has left ready has a message of its
    /// own; otherwise this message may be the only one, and is given back.
    fn left_behind(&self, found: Version, record: &RunRecord) -> AdvanceResult {
        match &record.live {
            Live::Ready { .. } | Live::Retrying { .. } if record.version > found => AdvanceResult::Done,
            _ => AdvanceResult::NotBefore(self.now()),
        }
    }

    fn myself(&self) -> Initiator {
        Initiator::new(Cause::System, self.me.as_str())
    }

    /// Does what can be done with a step that nobody holds.
    async fn take<H: Hurry>(
        &self,
        driver: &mut RunDriver<'_, H>,
        loaded: Loaded,
        todo: Next,
    ) -> Result<RunPosition, EngineError> {
        match todo {
            Next::Claim | Next::TakeOver => self.claim(driver, loaded, todo == Next::TakeOver).await,
            Next::OpenWait | Next::OpenGate => {
                let seq = loaded.record.at;
                let follow = self.prepare(driver, &loaded, seq).await?;
                self.open(loaded, follow).await
            }
            Next::TimeOut => self.time_passed(loaded, |draft| TimeOut.decide(draft).map(drop)).await,
            Next::Nudge => self.time_passed(loaded, |draft| Nudge.decide(draft)).await,
            Next::Nothing | Next::NotBefore(_) => Ok(RunPosition::Free(loaded)),
        }
    }

    async fn claim<H: Hurry>(
        &self,
        driver: &mut RunDriver<'_, H>,
        loaded: Loaded,
        take_over: bool,
    ) -> Result<RunPosition, EngineError> {
        let seq = loaded.record.at;
        let proposal = match self.bind(&loaded, &mut driver.memory, seq).await? {
            Ok(proposal) => proposal,
            Err(unbound) => {
                return self.once(loaded, &self.myself(), |draft| unbound.settle(draft).map(|()| None)).await;
            }
        };
        let claim = self.claim_of(&proposal);
        let since = Instant::now();
        let position = |claimed| match claimed {
            Claimed::Granted(grant) => Some(Box::new(Held { seq, grant: *grant, proposal, since })),
            Claimed::Settled(_) | Claimed::Later(_) | Claimed::Asked => None,
        };
        self.once(loaded, &self.myself(), |draft| {
            let claimed = if take_over { TakeOver(claim).decide(draft) } else { claim.decide(draft) };
            claimed.map(position)
        })
        .await
    }

    fn claim_of(&self, proposal: &Proposal) -> Claim {
        Claim {
            owner: self.me.clone(),
            lease: self.timing.lease,
            action: proposal.action.clone(),
            receipt: proposal.receipt.clone(),
            abandoned: proposal.abandoned,
            governed: proposal.governed.clone(),
        }
    }

    async fn time_passed(
        &self,
        loaded: Loaded,
        decide: impl FnOnce(&mut Draft<'_>) -> Result<(), Refusal>,
    ) -> Result<RunPosition, EngineError> {
        let by = Initiator::new(Cause::Timeout, self.me.as_str());
        self.once(loaded, &by, |draft| decide(draft).map(|()| None)).await
    }

    async fn open(
        &self,
        loaded: Loaded,
        follow: Result<Follow, Unbound>,
    ) -> Result<RunPosition, EngineError> {
        self.once(loaded, &self.myself(), |draft| match follow {
            Ok(Follow::OpenWait(early)) => OpenWait { early }.decide(draft).map(|_| None),
            Ok(Follow::OpenGate(message)) => OpenGate { message }.decide(draft).map(|_| None),
            Ok(Follow::Claim(..) | Follow::Leave) => Err(Refusal::WrongWork { expected: "a wait or a gate" }),
            Err(unbound) => unbound.settle(draft).map(|()| None),
        })
        .await
    }

    /// Decides once and commits. If that is overtaken, the walk looks again at what stands there now.
    async fn once(
        &self,
        loaded: Loaded,
        by: &Initiator,
        decide: impl FnOnce(&mut Draft<'_>) -> Result<Option<Box<Held>>, Refusal>,
    ) -> Result<RunPosition, EngineError> {
        let (held, decision) = {
            let mut draft = self.draft(&loaded, by);
            match decide(&mut draft) {
                Ok(held) => (held, draft.close()),
                // Whatever made the rules say no is on the record; look again. Time moves on between
                // looking and deciding, so this is no contradiction.
                Err(Refusal::Held { .. } | Refusal::NotBefore { .. } | Refusal::StaleFence { .. }) => {
                    return self.load(&loaded.record.key).await.map(RunPosition::Free);
                }
                Err(refusal) => return Err(refusal.into()),
            }
        };
        match self.commit(&loaded, decision).await? {
            Committed::Yes(now) => Ok(match held {
                Some(held) => RunPosition::Holding(now, held),
                None => RunPosition::Free(now),
            }),
            Committed::Overtaken(now) => Ok(RunPosition::Free(now)),
        }
    }

    /// What can be done with the step at `seq` in the same commit that makes it ready.
    pub(crate) async fn follow<H: Hurry>(
        &self,
        driver: &mut RunDriver<'_, H>,
        loaded: &Loaded,
        seq: StepSeq,
    ) -> Result<Follow, EngineError> {
        let record = &loaded.record;
        // A request changes what comes next, and an undoing goes the other way: both are looked at afresh.
        let plain = record.cancel.is_none() && record.pause.is_none() && !record.is_undoing();
        if !plain || !driver.goes_on() || loaded.plan.plan().step(seq).is_none() {
            return Ok(Follow::Leave);
        }
        if !self.may_begin(record).await? {
            return Ok(Follow::Leave);
        }
        Ok(self.prepare(driver, loaded, seq).await?.unwrap_or(Follow::Leave))
    }

    async fn prepare<H: Hurry>(
        &self,
        driver: &mut RunDriver<'_, H>,
        loaded: &Loaded,
        seq: StepSeq,
    ) -> Result<Result<Follow, Unbound>, EngineError> {
        match loaded.plan.plan().step(seq).map(|step| &step.work) {
            Some(Work::Call(_)) => Ok(self
                .bind(loaded, &mut driver.memory, seq)
                .await?
                .map(|proposal| Follow::Claim(seq, Box::new(proposal)))),
            Some(Work::Wait { event, .. }) => {
                let kept = loaded.record.early.iter().find(|early| early.event == *event);
                let Some(kept) = kept else { return Ok(Ok(Follow::OpenWait(None))) };
                let run = &loaded.record.key;
                let signal = self.retry_busy(|| self.store.signal(run, &kept.signal)).await?;
                Ok(Ok(Follow::OpenWait(signal)))
            }
            Some(Work::Gate { .. }) => {
                let question = self.question(loaded, &mut driver.memory, seq).await?;
                Ok(question.map(Follow::OpenGate).map_err(Unbound::from))
            }
            None => Ok(Ok(Follow::Leave)),
        }
    }

    /// Ends a held step, together with what follows it, however often others get in between. `end` is
    /// decided anew on what stands there; when the lease is lost there is nothing left to end.
    pub(crate) async fn conclude(
        &self,
        mut loaded: Loaded,
        mut follow: Follow,
        end: impl Fn(&mut Draft<'_>) -> Result<Option<Advanced>, Refusal>,
    ) -> Result<RunPosition, EngineError> {
        for _ in 0..ROUNDS_MAX {
            let concluded = self.conclusion(&loaded, &follow, &end);
            let (held, decision) = match concluded {
                Ok(concluded) => concluded,
                Err(Refusal::StaleFence { .. } | Refusal::Terminal { .. }) => {
                    return Ok(RunPosition::Free(loaded));
                }
                Err(refusal) => return Err(refusal.into()),
            };
            match self.commit(&loaded, decision).await? {
                Committed::Yes(now) => {
                    return Ok(match held {
                        Some(held) => RunPosition::Holding(now, held),
                        None => RunPosition::Free(now),
                    });
                }
                // It may be the next step's receipt that somebody else has written. Ending this one must
                // not wait for that: what follows is prepared anew from what stands there.
                Committed::Overtaken(now) => {
                    loaded = now;
                    follow = Follow::Leave;
                }
            }
        }
        Err(EngineError::Contended { run: loaded.record.key.clone(), rounds: ROUNDS_MAX })
    }

    fn conclusion(
        &self,
        loaded: &Loaded,
        follow: &Follow,
        end: &impl Fn(&mut Draft<'_>) -> Result<Option<Advanced>, Refusal>,
    ) -> Result<(Option<Box<Held>>, Decision), Refusal> {
        let (by, since) = (self.myself(), Instant::now());
        let mut draft = self.draft(loaded, &by);
        let advanced = end(&mut draft)?;
        let plain = advanced == Some(Advanced::Ready) && draft.record.status == RunStatus::Running;
        match plain.then(|| self.hand_on(&mut draft, follow, since)) {
            Some(Ok(held)) => Ok((held, draft.close())),
            None => Ok((None, draft.close())),
            // What follows changed since it was prepared: end the step alone.
            Some(Err(_)) => {
                let mut draft = self.draft(loaded, &by);
                end(&mut draft)?;
                Ok((None, draft.close()))
            }
        }
    }

    fn hand_on(
        &self,
        draft: &mut Draft<'_>,
        follow: &Follow,
        since: Instant,
    ) -> Result<Option<Box<Held>>, Refusal> {
        match follow {
            Follow::Claim(seq, proposal) => {
                let claimed = self.claim_of(proposal).decide(draft)?;
                Ok(match claimed {
                    Claimed::Granted(grant) => {
                        let proposal = *proposal.clone();
                        Some(Box::new(Held { seq: *seq, grant: *grant, proposal, since }))
                    }
                    Claimed::Settled(_) | Claimed::Later(_) | Claimed::Asked => None,
                })
            }
            Follow::OpenWait(early) => OpenWait { early: early.clone() }.decide(draft).map(|_| None),
            Follow::OpenGate(message) => OpenGate { message: message.clone() }.decide(draft).map(|_| None),
            Follow::Leave => Ok(None),
        }
    }
}
