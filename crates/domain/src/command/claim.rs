//! Claim: a worker leases the current step under a new fence.
//!
//! For an effect, the same commit writes the intent to the ledger. The receipt that the ledger already has under the
//! action's key decides what happens: a result is reused, an open intent of the same step is continued as its effect
//! class allows, and the intent of another run is left alone.

use crate::draft::{Draft, ReceiptChange};
use crate::effect::{Action, EffectClass, KEY_RETENTION_MARGIN};
use crate::event::{EventBody, ReceiptRef};
use crate::failure::{self, Failure};
use crate::id::{ApprovalId, Fence, PersonId, WorkerId};
use crate::machine::{RunStatus, RunTransition, StepTransition};
use crate::plan::Work;
use crate::receipt::{Receipt, ReceiptState};
use crate::record::{Intent, Lease, StepState};
use crate::refusal::{Code, Refusal};
use crate::time::{Millis, Timestamp};

use super::ending::{self, AfterStep, PerformedEffect, Success};
use super::govern::{self, Authority, Authorization, PolicyEvaluation};
use super::retry::{self, Postponed, RetryResult};
use super::{Command, fail};

/// How much the clocks of two workers may differ when the age of an idempotency key is computed.
const CLOCK_SKEW_MAX: Millis = Millis::mins(5);

/// Leases the current step.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The worker.
    pub owner: WorkerId,
    /// The length of the lease.
    pub lease: Millis,
    /// The proposed action, computed from persisted data.
    pub action: Action,
    /// The ledger's receipt under the action's key.
    pub receipt: Option<Receipt>,
    /// Whether the run that wrote this receipt has ended, so that its outcome will stay unknown.
    pub abandoned: bool,
    /// The policy evaluation of the action. A call that leaves the process without one is refused, unless it is an
    /// effect that was intended before: then it continues under the verdict on its receipt.
    pub assessment: Option<PolicyEvaluation>,
    /// The approvers of the step's approval who have left the tenant's directory or the required group since. Their
    /// votes no longer count.
    pub departed: Vec<PersonId>,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimResult {
    /// The worker holds the lease and performs the work.
    Granted(Box<Grant>),
    /// The step ended or paused without work: its result exists, the run was canceled, or the outcome of an earlier
    /// attempt is unknown.
    Resolved(AfterStep),
    /// The action needs an approval first.
    AwaitingApproval,
    /// Another run is performing the same effect. The step is scheduled again, unless its attempts are exhausted.
    Deferred(RetryResult),
}

/// A lease on a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The fence of the lease.
    pub fence: Fence,
    /// How to start.
    pub mode: AttemptMode,
    /// When the lease expires, unless renewed.
    pub until: Timestamp,
    /// The intent, if the action has an effect.
    pub receipt: Option<Receipt>,
}

/// How an attempt at a step starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptMode {
    /// No earlier attempt acted: perform the action.
    Fresh,
    /// An earlier attempt may have acted, and repeating it is safe: perform the action with the same key.
    Repeat,
    /// An earlier attempt may have acted: revoke the previous worker's access, wait for its requests, look the effect
    /// up, and perform the action only if it is not found.
    LookUp,
}

impl Command for Claim {
    type Output = ClaimResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<ClaimResult, Refusal> {
        draft.ensure_active()?;
        let before = prior_attempt(draft)?;
        let prior = PriorEffect::of(draft, &self, &before);
        // Nothing is intended yet, so a request to cancel takes effect here.
        if let (Some(request), false, PriorEffect::Clear { .. }) =
            (draft.record.cancel.clone(), draft.record.is_rolling_back(), &prior)
        {
            return ending::cancel_run(draft, request.reason).map(ClaimResult::Resolved);
        }
        // The step now proposes another effect, so the outcome of the authorized one stays unknown.
        let abandoned = before.authorized
            && before.open.as_ref().is_some_and(|open| open.key != self.action.key && !open.foreign);
        draft.record.effects.unknown += u32::from(abandoned);
        grant(draft, &self, prior, &before)
    }
}

/// The state that earlier attempts left.
#[derive(Clone)]
pub(super) struct PriorAttempt {
    pub(super) attempt: u32,
    /// The intent whose outcome is unknown.
    pub(super) open: Option<Intent>,
    /// Whether an operator authorized another attempt at it.
    pub(super) authorized: bool,
    /// The approval of the action.
    pub(super) approved: Option<ApprovalId>,
}

/// The state that earlier attempts left, if the step can be claimed now.
fn prior_attempt(draft: &Draft<'_>) -> Result<PriorAttempt, Refusal> {
    let record = &draft.record;
    match &record.step_state {
        _ if record.status == RunStatus::Paused => Err(Refusal::Paused { run: record.key.clone() }),
        _ if !record.is_rolling_back() && !matches!(draft.step()?.work, Work::Call(_)) => {
            Err(Refusal::WrongState { expected: "a call" })
        }
        StepState::Ready { attempt, authorized, approved } => Ok(PriorAttempt {
            attempt: *attempt,
            open: authorized.clone(),
            authorized: authorized.is_some(),
            approved: approved.clone(),
        }),
        StepState::Retrying { attempt, not_before, open, approved, .. } if *not_before <= draft.now() => {
            Ok(PriorAttempt {
                attempt: *attempt,
                open: open.clone(),
                authorized: false,
                approved: approved.clone(),
            })
        }
        StepState::Retrying { not_before, .. } => Err(Refusal::NotBefore { at: *not_before }),
        StepState::Running(lease) => {
            Err(Refusal::LeaseHeld { owner: lease.owner.clone(), until: lease.until })
        }
        StepState::Unresolved { .. }
        | StepState::WaitingEvent { .. }
        | StepState::WaitingApproval { .. }
        | StepState::Ended { .. } => Err(Refusal::WrongState { expected: "a step that can be claimed" }),
    }
}

/// What the receipt under the action's key means for this step.
pub(super) enum PriorEffect {
    /// No attempt acted, or the effect is known not to have happened.
    Clear {
        /// The receipt revision that a new intent replaces.
        replaces: Option<u32>,
    },
    /// An earlier attempt at this step may have acted; continue in this mode.
    Interrupted(AttemptMode),
    /// An earlier attempt at this step may have acted, and only an operator can decide.
    Unknown(Failure),
    /// The effect happened.
    Done(Box<Receipt>),
    /// Another run is performing an action under this key.
    InFlight(Failure),
    /// Another run ended with an unknown outcome, and only an operator can decide.
    Abandoned(Failure),
    /// The key names another action, which was performed.
    Conflict(Failure),
}

impl PriorEffect {
    pub(super) fn of(draft: &Draft<'_>, claim: &Claim, before: &PriorAttempt) -> Self {
        let prior = match &before.open {
            Some(open) => effect_of_open_intent(draft, claim, open),
            None => effect_of_receipt(draft, claim),
        };
        match prior {
            // An operator has seen the evidence and authorized another attempt. That covers only the action the operator
            // saw: if the step proposes another action now, the operator decides again. It does not cover effects that
            // other runs performed or are performing under the key.
            Self::Unknown(failure) if before.authorized => match effect_of_receipt(draft, claim) {
                Self::Unknown(_) if is_same_action(claim) => Self::Interrupted(AttemptMode::Repeat),
                Self::Unknown(_) => Self::Unknown(failure),
                Self::Abandoned(_) if matches_authorisation(claim, before) => {
                    Self::Interrupted(AttemptMode::Repeat)
                }
                prior => prior,
            },
            prior => prior,
        }
    }
}

/// Whether the receipt under the claim's key is for the claimed action.
fn is_same_action(claim: &Claim) -> bool {
    claim.receipt.as_ref().is_some_and(|receipt| receipt.action == claim.action.hash())
}

/// Whether the claimed action is the one that an operator authorized.
fn matches_authorisation(claim: &Claim, before: &PriorAttempt) -> bool {
    before.open.as_ref() == Some(&foreign_intent(&claim.action))
}

fn intent_of(action: &Action) -> Intent {
    Intent {
        key: action.key.clone(),
        action: action.hash(),
        class: action.class,
        destructive: action.destructive,
        foreign: false,
    }
}

/// The intent of `action`, started by another run that has ended.
fn foreign_intent(action: &Action) -> Intent {
    Intent { foreign: true, ..intent_of(action) }
}

/// What the receipt under the key means for a step without an open intent.
fn effect_of_receipt(draft: &Draft<'_>, claim: &Claim) -> PriorEffect {
    let Some(receipt) = claim.receipt.as_ref().filter(|_| claim.action.class.has_effect()) else {
        return PriorEffect::Clear { replaces: None };
    };
    let record = &draft.record;
    match &receipt.state {
        ReceiptState::Done { .. } if !is_same_action(claim) => PriorEffect::Conflict(Failure::new(
            Code::IdempotencyConflict.as_str(),
            format!("key {} names another action, performed by run {}", receipt.key, receipt.run),
        )),
        ReceiptState::Done { .. } => PriorEffect::Done(Box::new(receipt.clone())),
        ReceiptState::Failed { .. } => PriorEffect::Clear { replaces: Some(receipt.revision) },
        // The record has no open intent, so this receipt is not from a known attempt.
        ReceiptState::Intent if receipt.is_for_step(&record.key.run, record.at, record.is_rolling_back()) => {
            PriorEffect::Unknown(action_changed())
        }
        ReceiptState::Intent if claim.abandoned => PriorEffect::Abandoned(Failure::new(
            failure::OUTCOME_UNKNOWN,
            format!("run {} ended, and the outcome of {} is unknown", receipt.run, receipt.key),
        )),
        ReceiptState::Intent => PriorEffect::InFlight(Failure::new(
            failure::KEY_IN_FLIGHT,
            format!("run {} is performing {}", receipt.run, receipt.key),
        )),
    }
}

/// What the receipt means for a step whose earlier attempt left the intent `open`.
fn effect_of_open_intent(draft: &Draft<'_>, claim: &Claim, open: &Intent) -> PriorEffect {
    let action = &claim.action;
    let record = &draft.record;
    let receipt = claim
        .receipt
        .as_ref()
        .filter(|r| r.is_for_step(&record.key.run, record.at, record.is_rolling_back()));
    match receipt {
        // The step must still propose the same action; otherwise the receipt says nothing about the proposed one.
        Some(receipt) if open.key == action.key && open.action == action.hash() => match &receipt.state {
            ReceiptState::Done { .. } => PriorEffect::Done(Box::new(receipt.clone())),
            ReceiptState::Failed { .. } => PriorEffect::Clear { replaces: Some(receipt.revision) },
            ReceiptState::Intent => resolve_interrupted(action, receipt, draft.now()),
        },
        Some(_) | None => PriorEffect::Unknown(action_changed()),
    }
}

fn action_changed() -> Failure {
    Failure::new(
        failure::OUTCOME_UNKNOWN,
        "the step proposes another action than the one that was interrupted",
    )
}

fn resolve_interrupted(action: &Action, receipt: &Receipt, now: Timestamp) -> PriorEffect {
    match action.class {
        EffectClass::Pure | EffectClass::ReadOnly | EffectClass::CompareAndSet => {
            PriorEffect::Interrupted(AttemptMode::Repeat)
        }
        EffectClass::NativeKey => match action.key_retention {
            Some(retention) if !is_certainly_retained(receipt.intended_at, now, retention) => {
                PriorEffect::Unknown(Failure::new(
                    Code::IdempotencyExpired.as_str(),
                    format!("the external system retains keys for {retention}; this key may have expired"),
                ))
            }
            Some(_) | None => PriorEffect::Interrupted(AttemptMode::Repeat),
        },
        EffectClass::LookUp => PriorEffect::Interrupted(AttemptMode::LookUp),
        EffectClass::Opaque => PriorEffect::Unknown(Failure::new(
            failure::OUTCOME_UNKNOWN,
            format!(
                "an attempt at {} was interrupted, and the external system cannot report whether it happened",
                action.target
            ),
        )),
    }
}

/// Whether a request that is sent now arrives before the external system forgets the key of an attempt at `intended_at`.
/// That time may come from the clock of another worker, and a request may be sent long after the decision.
fn is_certainly_retained(intended_at: Timestamp, now: Timestamp, retention: Millis) -> bool {
    let age = (now - intended_at).0.saturating_add(KEY_RETENTION_MARGIN.0);
    intended_at <= now + CLOCK_SKEW_MAX && age <= retention.0
}

/// Grants a lease, or ends the step, as `prior` decides.
pub(super) fn grant(
    draft: &mut Draft<'_>,
    claim: &Claim,
    prior: PriorEffect,
    before: &PriorAttempt,
) -> Result<ClaimResult, Refusal> {
    match prior {
        PriorEffect::Clear { .. } if !claim.action.class.has_effect() => {
            if let Some(denied) = govern::deny_read(draft, claim)? {
                return Ok(denied);
            }
            let lease = acquire_lease(draft, claim, before)?;
            Ok(claim_granted(&lease, AttemptMode::Fresh, None))
        }
        PriorEffect::Clear { replaces } => match govern::authorize(draft, claim, before)? {
            Authority::Granted(authorization) => {
                write_intent(draft, claim, before, authorization, (AttemptMode::Fresh, replaces))
            }
            Authority::Withheld(claimed) => Ok(claimed),
        },
        // An operator authorized another attempt. It needs a verdict and an approval like every other attempt.
        PriorEffect::Interrupted(mode) if before.authorized => match govern::authorize(draft, claim, before)?
        {
            Authority::Granted(authorization) => {
                let replaces = claim.receipt.as_ref().map(|receipt| receipt.revision);
                write_intent(draft, claim, before, authorization, (mode, replaces))
            }
            Authority::Withheld(claimed) => Ok(claimed),
        },
        PriorEffect::Interrupted(mode) => continue_intent(draft, claim, before, mode),
        PriorEffect::Done(receipt) => {
            govern::withdraw_live(draft, "the effect has already happened")?;
            reuse_result(draft, *receipt).map(ClaimResult::Resolved)
        }
        PriorEffect::InFlight(failure) => defer(draft, before, failure),
        PriorEffect::Conflict(failure) => ending::fail_step(draft, failure).map(ClaimResult::Resolved),
        PriorEffect::Unknown(failure) => {
            depend_on_receipt(draft, claim);
            ending::pause_unresolved(draft, failure).map(ClaimResult::Resolved)
        }
        // The operator decides about the action that this step proposes.
        PriorEffect::Abandoned(failure) => {
            depend_on_receipt(draft, claim);
            ending::pause_step(draft, failure, Some(foreign_intent(&claim.action))).map(ClaimResult::Resolved)
        }
    }
}

/// Another run may record the outcome after the receipt was read. Then the outcome is not unknown.
fn depend_on_receipt(draft: &mut Draft<'_>, claim: &Claim) {
    if let Some(receipt) = &claim.receipt {
        draft.depend_on(receipt);
    }
}

fn claim_granted(lease: &Lease, mode: AttemptMode, receipt: Option<Receipt>) -> ClaimResult {
    ClaimResult::Granted(Box::new(Grant { fence: lease.fence, mode, until: lease.until, receipt }))
}

fn acquire_lease(draft: &mut Draft<'_>, claim: &Claim, before: &PriorAttempt) -> Result<Lease, Refusal> {
    draft.record.fence = draft.record.fence.next();
    let lease = Lease {
        owner: claim.owner.clone(),
        fence: draft.record.fence,
        attempt: before.attempt,
        since: draft.now(),
        until: draft.now() + claim.lease,
        op: draft.context.op.clone(),
        intent: claim.action.class.has_effect().then(|| intent_of(&claim.action)),
        approved: before.approved.clone(),
    };
    draft.move_step(StepTransition::Claim, StepState::Running(lease.clone()))?;
    draft.move_run(RunTransition::Claim)?;
    Ok(lease)
}

/// Writes the intent, with the verdict and the approval that allow the effect, before the effect.
fn write_intent(
    draft: &mut Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
    authorization: Authorization,
    (mode, replaces): (AttemptMode, Option<u32>),
) -> Result<ClaimResult, Refusal> {
    let Authorization { assessment, approved } = authorization;
    let approval = approved.clone();
    let lease = acquire_lease(draft, claim, &PriorAttempt { approved, ..before.clone() })?;
    let action = &claim.action;
    let receipt = Receipt {
        tenant: draft.record.key.tenant.clone(),
        key: action.key.clone(),
        run: draft.record.key.run.clone(),
        step: draft.step()?.id.clone(),
        seq: draft.record.at,
        rollback: draft.record.is_rolling_back(),
        fence: lease.fence,
        action: action.hash(),
        class: action.class,
        reversibility: action.reversibility.clone(),
        target: action.target.clone(),
        tool: action.tool.clone(),
        observed: assessment.observed,
        verdict: assessment.verdict.hash(),
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
        verdict: assessment.verdict,
        approval,
        fence: lease.fence,
    });
    let displaces = claim.receipt.clone().filter(|earlier| earlier.run != receipt.run);
    draft.receipts.push(ReceiptChange { replaces, displaces, receipt: receipt.clone() });
    Ok(claim_granted(&lease, mode, Some(receipt)))
}

/// Continues an open intent under its original verdict and approval. If they no longer hold, an operator decides: the
/// interrupted attempt may have done nothing, and then this attempt would be the first effect.
fn continue_intent(
    draft: &mut Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
    mode: AttemptMode,
) -> Result<ClaimResult, Refusal> {
    let Some(intended) = &claim.receipt else {
        return Err(Refusal::NoVerdict { action: claim.action.hash() });
    };
    if let Some(why) = govern::repeat_denial(draft, claim, before)? {
        let failure = Failure::new(failure::OUTCOME_UNKNOWN, why);
        return ending::pause_unresolved(draft, failure).map(ClaimResult::Resolved);
    }
    let lease = acquire_lease(draft, claim, before)?;
    let replaces = Some(intended.revision);
    let revision = intended.revision.saturating_add(1);
    let receipt = Receipt { fence: lease.fence, revision, ..intended.clone() };
    draft.receipts.push(ReceiptChange { replaces, displaces: None, receipt: receipt.clone() });
    Ok(claim_granted(&lease, mode, Some(receipt)))
}

/// The effect has happened: the step ends with its result, and performs nothing.
fn reuse_result(draft: &mut Draft<'_>, receipt: Receipt) -> Result<AfterStep, Refusal> {
    let record = &draft.record;
    let is_own = receipt.is_for_step(&record.key.run, record.at, record.is_rolling_back());
    let effect = if is_own { PerformedEffect::of(&receipt) } else { PerformedEffect::None };
    let ReceiptState::Done { result, fingerprint, .. } = receipt.state else {
        return Err(Refusal::WrongState { expected: "a step whose effect is done" });
    };
    // No lease is granted, but the run starts running.
    draft.move_run(RunTransition::Claim)?;
    ending::succeed(
        draft,
        Success {
            output: result,
            fingerprint,
            attempt: None,
            receipt: Some(ReceiptRef { key: receipt.key, action: receipt.action }),
            effect,
            cost_microusd: 0,
            usage: None,
        },
    )
}

/// Another run is performing the effect. Waiting counts as an attempt, so that two runs that block each other end.
fn defer(draft: &mut Draft<'_>, before: &PriorAttempt, failure: Failure) -> Result<ClaimResult, Refusal> {
    let attempt = before.attempt;
    if draft.step()?.retry.is_exhausted_by(attempt) {
        return fail::fail_exhausted(draft, &failure).map(ClaimResult::Resolved);
    }
    let approved = before.approved.clone();
    let postponed = Postponed { failure, retry_after: None, open: None, approved };
    retry::schedule(draft, attempt, postponed).map(ClaimResult::Deferred)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_reused_only_while_retained() {
        let (now, retention) = (Timestamp(Millis::hours(48).0.cast_signed()), Millis::hours(24));
        let intended = |age: Millis| now.earlier(age);
        assert!(is_certainly_retained(now, now, retention));
        assert!(is_certainly_retained(intended(Millis::hours(23)), now, retention));
        assert!(
            !is_certainly_retained(intended(Millis(Millis::hours(24).0 - 60_000)), now, retention),
            "a call lasts"
        );
        // The clock of the first worker was 15 minutes fast, so the key is older than it seems.
        assert!(!is_certainly_retained(now + Millis::mins(15), now, retention));
        assert!(is_certainly_retained(now + Millis::mins(5), now, retention));
    }
}
