//! Claim: a worker takes the current step under a new fence, and writes down what it is about to do.
//!
//! For an effect the intent goes into the ledger in the same commit. What stands there already decides:
//! a result is reused, an unfinished intent of the same step is taken up by the rules of its class, one of
//! another run is left alone.

use crate::draft::{Draft, ReceiptChange};
use crate::effect::{Action, EffectClass};
use crate::event::{EventBody, ReceiptRef};
use crate::failure::{self, Failure};
use crate::id::{ApprovalId, Fence, WorkerId};
use crate::machine::{RunMove, StepMove};
use crate::plan::Work;
use crate::receipt::{Receipt, ReceiptState};
use crate::record::{Intent, Lease, Live};
use crate::refusal::{Code, Refusal};
use crate::time::{Millis, Timestamp};

use super::ending::{self, Advanced, Success};
use super::govern::{self, Authority, Given, Governed};
use super::retry::{self, Postponed, Retried};
use super::{Command, fail};

/// A wish to take the current step.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Who wants it.
    pub owner: WorkerId,
    /// For how long, unless extended.
    pub lease: Millis,
    /// What would be done, bound from persisted data.
    pub action: Action,
    /// The receipt that stands under the action's key.
    pub receipt: Option<Receipt>,
    /// Whether the run that wrote it is over, so that nobody will ever say what came of it.
    pub abandoned: bool,
    /// What policy says about it. An effect that nobody has judged is refused, unless it was intended
    /// before: then it goes on under the verdict on its receipt.
    pub governed: Option<Governed>,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum Claimed {
    /// The step is held: do the work.
    Granted(Box<Grant>),
    /// The step ended without work: its result was already there, or a request stopped it, or nobody can
    /// say what happened.
    Settled(Advanced),
    /// People are asked first.
    Asked,
    /// Another run is doing the same thing; the step is due again later, unless its attempts are used up.
    Later(Retried),
}

/// Permission to work on a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The fence to prove it with.
    pub fence: Fence,
    /// How the work begins.
    pub mode: Mode,
    /// Until when, unless extended.
    pub until: Timestamp,
    /// The intent, for an action that has an effect.
    pub receipt: Option<Receipt>,
}

/// How the work on a step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nobody has acted: act.
    Fresh,
    /// Somebody may have acted, and acting again is safe: act with the same key.
    Again,
    /// Somebody may have acted: shut the old holder out, wait for its requests, look, and act only if
    /// nothing is found.
    LookUp,
}

impl Command for Claim {
    type Answer = Claimed;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Claimed, Refusal> {
        draft.open()?;
        let before = claimable(draft)?;
        let stand = PriorEffect::of(draft, &self, &before);
        // Nothing has been intended yet, so a request to stop is honoured here.
        if let (Some(request), false, PriorEffect::Clear { .. }) =
            (draft.record.cancel.clone(), draft.record.is_undoing(), &stand)
        {
            return ending::cancel_run(draft, request.reason).map(Claimed::Settled);
        }
        // The step means something else now, and whoever said to act again has let go of what is open.
        let abandoned = before.authorised
            && before.open.as_ref().is_some_and(|open| open.key != self.action.key && !open.foreign_intent);
        draft.record.effects.unknown += u32::from(abandoned);
        grant(draft, &self, stand, &before)
    }
}

/// What earlier attempts have left behind.
#[derive(Clone)]
pub(super) struct PriorAttempt {
    pub(super) attempt: u32,
    /// An effect that was intended and whose outcome is not known.
    pub(super) open: Option<Intent>,
    /// Whether a person has said that it may be done again.
    pub(super) authorised: bool,
    /// What people have approved.
    pub(super) approved: Option<ApprovalId>,
}

/// What earlier attempts have left behind, if the step can be claimed now.
fn claimable(draft: &Draft<'_>) -> Result<PriorAttempt, Refusal> {
    let record = &draft.record;
    match &record.live {
        _ if record.status == crate::RunStatus::Paused => Err(Refusal::Paused { run: record.key.clone() }),
        _ if !record.is_undoing() && !matches!(draft.step()?.work, Work::Call(_)) => {
            Err(Refusal::WrongWork { expected: "a call" })
        }
        Live::Ready { attempt, authorised, approved } => Ok(PriorAttempt {
            attempt: *attempt,
            open: authorised.clone(),
            authorised: authorised.is_some(),
            approved: approved.clone(),
        }),
        Live::Retrying { attempt, not_before, open, approved, .. } if *not_before <= draft.now() => {
            Ok(PriorAttempt {
                attempt: *attempt,
                open: open.clone(),
                authorised: false,
                approved: approved.clone(),
            })
        }
        Live::Retrying { not_before, .. } => Err(Refusal::NotBefore { at: *not_before }),
        Live::Running(lease) => Err(Refusal::Held { owner: lease.owner.clone(), until: lease.until }),
        Live::Unresolved { .. }
        | Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Over { .. } => Err(Refusal::WrongWork { expected: "a step that can be claimed" }),
    }
}

/// What the receipt under the action's key means for this step.
pub(super) enum PriorEffect {
    /// Nobody has acted, or it is known that the effect did not happen.
    Clear {
        /// What a new intent replaces.
        replaces: Option<u32>,
    },
    /// An attempt at this very step may have acted; this is how to go on.
    Interrupted(Mode),
    /// An attempt at this very step may have acted, and nothing may be done about it without a person.
    Unknown(Failure),
    /// It happened.
    Done(Box<Receipt>),
    /// Another run, or another action under the same key, is under way.
    Elsewhere(Failure),
    /// Another run ended without anybody knowing whether it happened, and nothing may be done about it
    /// without a person.
    Abandoned(Failure),
    /// The key names something else that was done.
    Conflict(Failure),
}

impl PriorEffect {
    pub(super) fn of(draft: &Draft<'_>, claim: &Claim, before: &PriorAttempt) -> Self {
        let stand = match &before.open {
            Some(open) => after_intent(draft, claim, open),
            None => first_intent(draft, claim),
        };
        match stand {
            // A person has seen the evidence and said to act again. What others have done or are doing
            // under the key is foreign_intent all the same.
            // What they saw is what they spoke of: if the step means something else by now, they are asked
            // once more.
            Self::Unknown(failure) if before.authorised => match first_intent(draft, claim) {
                Self::Unknown(_) if means_the_same(claim) => Self::Interrupted(Mode::Again),
                Self::Unknown(_) => Self::Unknown(failure),
                Self::Abandoned(_) if matches_authorisation(claim, before) => Self::Interrupted(Mode::Again),
                stand => stand,
            },
            stand => stand,
        }
    }
}

/// Whether the receipt under the claim's key is for the very action that is claimed.
fn means_the_same(claim: &Claim) -> bool {
    claim.receipt.as_ref().is_some_and(|receipt| receipt.action == claim.action.hash())
}

/// Whether the very action that is claimed is the one that a person has said may be done.
fn matches_authorisation(claim: &Claim, before: &PriorAttempt) -> bool {
    before.open.as_ref() == Some(&foreign_intent(&claim.action))
}

fn intent_of(action: &Action) -> Intent {
    Intent { key: action.key.clone(), action: action.hash(), class: action.class, foreign_intent: false }
}

/// The effect of `action`, begun by a run that has ended.
fn foreign_intent(action: &Action) -> Intent {
    Intent { foreign_intent: true, ..intent_of(action) }
}

/// Nobody has intended this step's effect yet.
fn first_intent(draft: &Draft<'_>, claim: &Claim) -> PriorEffect {
    let Some(receipt) = claim.receipt.as_ref().filter(|_| claim.action.class.has_effect()) else {
        return PriorEffect::Clear { replaces: None };
    };
    let record = &draft.record;
    match &receipt.state {
        ReceiptState::Done { .. } if !means_the_same(claim) => PriorEffect::Conflict(Failure::new(
            Code::IdempotencyConflict.as_str(),
            format!("{} names another action that run {} has done", receipt.key, receipt.run),
        )),
        ReceiptState::Done { .. } => PriorEffect::Done(Box::new(receipt.clone())),
        ReceiptState::Failed { .. } => PriorEffect::Clear { replaces: Some(receipt.revision) },
        // The record says that nothing is open, so this is not ours, whatever it says.
        ReceiptState::Intent if receipt.is_of(&record.key.run, record.at, record.is_undoing()) => {
            PriorEffect::Unknown(changed())
        }
        ReceiptState::Intent if claim.abandoned => PriorEffect::Abandoned(Failure::new(
            failure::OUTCOME_UNKNOWN,
            format!("run {} ended without anybody knowing whether it did {}", receipt.run, receipt.key),
        )),
        ReceiptState::Intent => PriorEffect::Elsewhere(Failure::new(
            failure::KEY_IN_FLIGHT,
            format!("run {} is doing {} at this moment", receipt.run, receipt.key),
        )),
    }
}

/// An earlier attempt intended `open`, and nobody knows what came of it.
fn after_intent(draft: &Draft<'_>, claim: &Claim, open: &Intent) -> PriorEffect {
    let action = &claim.action;
    let record = &draft.record;
    let receipt = claim.receipt.as_ref().filter(|r| r.is_of(&record.key.run, record.at, record.is_undoing()));
    match receipt {
        // The same step must still mean the same effect, or looking after it would look at the wrong one.
        Some(receipt) if open.key == action.key && open.action == action.hash() => match &receipt.state {
            ReceiptState::Done { .. } => PriorEffect::Done(Box::new(receipt.clone())),
            ReceiptState::Failed { .. } => PriorEffect::Clear { replaces: Some(receipt.revision) },
            ReceiptState::Intent => interrupted(action, receipt, draft.now()),
        },
        Some(_) | None => PriorEffect::Unknown(changed()),
    }
}

fn changed() -> Failure {
    Failure::new(
        failure::OUTCOME_UNKNOWN,
        "the step would do something else now than when it was interrupted",
    )
}

fn interrupted(action: &Action, receipt: &Receipt, now: Timestamp) -> PriorEffect {
    match action.class {
        EffectClass::ReadOnly | EffectClass::CompareAndSet => PriorEffect::Interrupted(Mode::Again),
        EffectClass::NativeKey => match action.key_retention {
            Some(retention) if now - receipt.intended_at > retention => PriorEffect::Unknown(Failure::new(
                Code::IdempotencyExpired.as_str(),
                format!("the other side forgets keys after {retention}, and the attempt is older than that"),
            )),
            Some(_) | None => PriorEffect::Interrupted(Mode::Again),
        },
        EffectClass::LookUp => PriorEffect::Interrupted(Mode::LookUp),
        EffectClass::Opaque => PriorEffect::Unknown(Failure::new(
            failure::OUTCOME_UNKNOWN,
            format!(
                "an attempt at {} was interrupted, and it cannot be asked whether it happened",
                action.target
            ),
        )),
    }
}

/// Acts on what stands: hands out a lease, or ends the step.
pub(super) fn grant(
    draft: &mut Draft<'_>,
    claim: &Claim,
    stand: PriorEffect,
    before: &PriorAttempt,
) -> Result<Claimed, Refusal> {
    match stand {
        PriorEffect::Clear { .. } if !claim.action.class.has_effect() => {
            let lease = hold(draft, claim, before)?;
            Ok(granted(&lease, Mode::Fresh, None))
        }
        PriorEffect::Clear { replaces } => match govern::authorise(draft, claim, before)? {
            Authority::Given(given) => intend(draft, claim, before, given, (Mode::Fresh, replaces)),
            Authority::Withheld(claimed) => Ok(claimed),
        },
        // A person said to do it again: that is a new attempt, judged and approved like any other.
        PriorEffect::Interrupted(mode) if before.authorised => match govern::authorise(draft, claim, before)?
        {
            Authority::Given(given) => {
                let replaces = claim.receipt.as_ref().map(|receipt| receipt.revision);
                intend(draft, claim, before, given, (mode, replaces))
            }
            Authority::Withheld(claimed) => Ok(claimed),
        },
        PriorEffect::Interrupted(mode) => again(draft, claim, before, mode),
        PriorEffect::Done(receipt) => {
            govern::withdraw_live(draft, "the effect has happened already")?;
            reuse(draft, *receipt).map(Claimed::Settled)
        }
        PriorEffect::Elsewhere(failure) => later(draft, before, failure),
        PriorEffect::Conflict(failure) => ending::fail_step(draft, failure).map(Claimed::Settled),
        PriorEffect::Unknown(failure) => ending::pause_unresolved(draft, failure).map(Claimed::Settled),
        // What the person decides about is what this step would do.
        PriorEffect::Abandoned(failure) => {
            ending::pause_step(draft, failure, Some(foreign_intent(&claim.action))).map(Claimed::Settled)
        }
    }
}

fn granted(lease: &Lease, mode: Mode, receipt: Option<Receipt>) -> Claimed {
    Claimed::Granted(Box::new(Grant { fence: lease.fence, mode, until: lease.until, receipt }))
}

fn hold(draft: &mut Draft<'_>, claim: &Claim, before: &PriorAttempt) -> Result<Lease, Refusal> {
    draft.record.fence = draft.record.fence.next();
    let lease = Lease {
        owner: claim.owner.clone(),
        fence: draft.record.fence,
        attempt: before.attempt,
        since: draft.now(),
        until: draft.now() + claim.lease,
        op: draft.stamp.op.clone(),
        intent: claim.action.class.has_effect().then(|| intent_of(&claim.action)),
        approved: before.approved.clone(),
    };
    draft.move_step(StepMove::Claim, Live::Running(lease.clone()))?;
    draft.move_run(RunMove::Claim)?;
    Ok(lease)
}

/// What allows the effect goes into the chain before it.
fn intend(
    draft: &mut Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
    given: Given,
    (mode, replaces): (Mode, Option<u32>),
) -> Result<Claimed, Refusal> {
    let Given { governed, approved } = given;
    let approval = approved.clone();
    let lease = hold(draft, claim, &PriorAttempt { approved, ..before.clone() })?;
    let action = &claim.action;
    let receipt = Receipt {
        tenant: draft.record.key.tenant.clone(),
        key: action.key.clone(),
        run: draft.record.key.run.clone(),
        step: draft.step()?.id.clone(),
        seq: draft.record.at,
        undo: draft.record.is_undoing(),
        fence: lease.fence,
        action: action.hash(),
        class: action.class,
        reversibility: action.reversibility.clone(),
        target: action.target.clone(),
        tool: action.tool.clone(),
        found: governed.found,
        verdict: governed.verdict.hash(),
        approval: approval.clone(),
        revision: replaces.map_or(0, |revision| revision.saturating_add(1)),
        intended_at: draft.now(),
        state: ReceiptState::Intent,
    };
    draft.record_event(EventBody::EffectIntended {
        receipt: ReceiptRef { key: receipt.key.clone(), action: receipt.action },
        tool: action.tool.clone(),
        class: action.class,
        target: action.target.clone(),
        verdict: governed.verdict,
        approval,
        fence: lease.fence,
    });
    let displaces = claim.receipt.clone().filter(|earlier| earlier.run != receipt.run);
    draft.receipts.push(ReceiptChange { replaces, displaces, receipt: receipt.clone() });
    Ok(granted(&lease, mode, Some(receipt)))
}

/// Somebody may have acted on this very intent. It goes on under what allowed it then, unless that would not
/// be allowed any more: to act where nothing has happened yet would be a first effect, so a person decides.
fn again(
    draft: &mut Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
    mode: Mode,
) -> Result<Claimed, Refusal> {
    let Some(intended) = &claim.receipt else {
        return Err(Refusal::Unjudged { action: claim.action.hash() });
    };
    if let Some(why) = govern::no_longer_allowed(draft, claim, before)? {
        let failure = Failure::new(failure::OUTCOME_UNKNOWN, why);
        return ending::pause_unresolved(draft, failure).map(Claimed::Settled);
    }
    let lease = hold(draft, claim, before)?;
    let replaces = Some(intended.revision);
    let revision = intended.revision.saturating_add(1);
    let receipt = Receipt { fence: lease.fence, revision, ..intended.clone() };
    draft.receipts.push(ReceiptChange { replaces, displaces: None, receipt: receipt.clone() });
    Ok(granted(&lease, mode, Some(receipt)))
}

/// The effect has happened: its result is the step's, and nothing is done.
fn reuse(draft: &mut Draft<'_>, receipt: Receipt) -> Result<Advanced, Refusal> {
    let record = &draft.record;
    let acted = receipt.is_of(&record.key.run, record.at, record.is_undoing());
    let ReceiptState::Done { result, fingerprint, .. } = receipt.state else {
        return Err(Refusal::WrongWork { expected: "a step whose effect is done" });
    };
    // Nobody holds the step, but somebody has taken it up.
    draft.move_run(RunMove::Claim)?;
    ending::succeed(
        draft,
        Success {
            output: result,
            fingerprint,
            attempt: None,
            receipt: Some(ReceiptRef { key: receipt.key, action: receipt.action }),
            acted,
            cost_microusd: 0,
            usage: None,
        },
    )
}

/// Somebody else is doing the same thing. That counts as an attempt, so that two runs which block each
/// other end in front of a person rather than never.
fn later(draft: &mut Draft<'_>, before: &PriorAttempt, failure: Failure) -> Result<Claimed, Refusal> {
    let attempt = before.attempt;
    if draft.step()?.retry.is_exhausted_by(attempt) {
        return fail::exhausted(draft, &failure).map(Claimed::Settled);
    }
    let approved = before.approved.clone();
    let postponed = Postponed { failure, retry_after: None, open: None, approved };
    retry::schedule(draft, attempt, postponed).map(Claimed::Later)
}
