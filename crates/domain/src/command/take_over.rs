//! Take over: a lease has expired, and another worker takes the step.
//!
//! The previous worker may be dead, frozen or slow. The larger fence rejects its later writes. The receipt and the
//! effect class decide how to handle an effect that it may have performed.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::record::{Lease, StepState};
use crate::refusal::Refusal;

use super::claim::{self, Claim, ClaimResult, PriorAttempt, PriorEffect};
use super::{Command, ending, fail};

/// Claims the current step after its lease expired.
#[derive(Debug, Clone, PartialEq)]
pub struct TakeOver(pub Claim);

impl Command for TakeOver {
    type Output = ClaimResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<ClaimResult, Refusal> {
        let TakeOver(claim) = self;
        draft.ensure_active()?;
        let lease = expired_lease(draft)?;
        let attempt = lease.attempt.saturating_add(1);
        draft.record.resumes = draft.record.resumes.saturating_add(1);
        draft.record_event(EventBody::LeaseExpired {
            previous_worker: lease.owner.clone(),
            fence: draft.record.fence.next(),
            number: attempt,
        });
        let before = PriorAttempt {
            attempt,
            open: lease.intent.clone(),
            authorized: false,
            approved: lease.approved.clone(),
        };
        let prior = PriorEffect::of(draft, &claim, &before);
        resolve(draft, &claim, prior, &lease, &before)
    }
}

fn expired_lease(draft: &Draft<'_>) -> Result<Lease, Refusal> {
    match &draft.record.step_state {
        StepState::Running(lease) if lease.until <= draft.now() => Ok(lease.clone()),
        StepState::Running(lease) => {
            Err(Refusal::LeaseHeld { owner: lease.owner.clone(), until: lease.until })
        }
        StepState::Ready { .. }
        | StepState::Retrying { .. }
        | StepState::Unresolved { .. }
        | StepState::WaitingEvent { .. }
        | StepState::WaitingApproval { .. }
        | StepState::Ended { .. } => Err(Refusal::WrongState { expected: "a leased step" }),
    }
}

fn resolve(
    draft: &mut Draft<'_>,
    claim: &Claim,
    prior: PriorEffect,
    lease: &Lease,
    before: &PriorAttempt,
) -> Result<ClaimResult, Refusal> {
    let exhausted = draft.step()?.retry.is_exhausted_by(lease.attempt);
    let expired = || Failure::new(failure::LEASE_EXPIRED, format!("the lease of {} expired", lease.owner));
    match (&prior, lease.intent.is_some()) {
        // No effect was started, so a request to cancel takes effect.
        (PriorEffect::Clear { .. }, false)
            if draft.record.cancel.is_some() && !draft.record.is_rolling_back() =>
        {
            let reason =
                draft.record.cancel.as_ref().map(|request| request.reason.clone()).unwrap_or_default();
            ending::cancel_run(draft, reason).map(ClaimResult::Resolved)
        }
        (PriorEffect::Clear { .. }, false) if exhausted => {
            fail::fail_exhausted(draft, &expired()).map(ClaimResult::Resolved)
        }
        // The effect may have happened, and no attempt is left to find out.
        (PriorEffect::Interrupted(_), _) if exhausted => {
            ending::pause_unresolved(draft, expired()).map(ClaimResult::Resolved)
        }
        _ => claim::grant(draft, claim, prior, before),
    }
}
