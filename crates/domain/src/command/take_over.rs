//! Take over: a lease has run out, and somebody else takes the step.
//!
//! The old holder may be dead, frozen or merely slow; nobody can tell. The larger fence shuts its writes
//! out. What it may have done outside is settled by the receipt and the class of the effect.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::record::{Lease, Live};
use crate::refusal::Refusal;

use super::claim::{self, Claim, Claimed, PriorAttempt, PriorEffect};
use super::{Command, ending, fail};

/// A wish to take over the current step.
#[derive(Debug, Clone, PartialEq)]
pub struct TakeOver(pub Claim);

impl Command for TakeOver {
    type Answer = Claimed;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Claimed, Refusal> {
        let TakeOver(claim) = self;
        draft.open()?;
        let lease = expired(draft)?;
        let attempt = lease.attempt.saturating_add(1);
        draft.record.resumes = draft.record.resumes.saturating_add(1);
        draft.record_event(EventBody::LeaseExpired {
            silent: lease.owner.clone(),
            fence: draft.record.fence.next(),
            number: attempt,
        });
        let before = PriorAttempt {
            attempt,
            open: lease.intent.clone(),
            authorised: false,
            approved: lease.approved.clone(),
        };
        let stand = PriorEffect::of(draft, &claim, &before);
        settle(draft, &claim, stand, &lease, &before)
    }
}

fn expired(draft: &Draft<'_>) -> Result<Lease, Refusal> {
    match &draft.record.live {
        Live::Running(lease) if lease.until <= draft.now() => Ok(lease.clone()),
        Live::Running(lease) => Err(Refusal::Held { owner: lease.owner.clone(), until: lease.until }),
        Live::Ready { .. }
        | Live::Retrying { .. }
        | Live::Unresolved { .. }
        | Live::WaitingEvent { .. }
        | Live::WaitingApproval { .. }
        | Live::Over { .. } => Err(Refusal::WrongWork { expected: "a step held under a lease" }),
    }
}

fn settle(
    draft: &mut Draft<'_>,
    claim: &Claim,
    stand: PriorEffect,
    lease: &Lease,
    before: &PriorAttempt,
) -> Result<Claimed, Refusal> {
    let exhausted = draft.step()?.retry.is_exhausted_by(lease.attempt);
    let silent = || Failure::new(failure::LEASE_EXPIRED, format!("worker {} went silent", lease.owner));
    match (&stand, lease.intent.is_some()) {
        // Nothing outside was touched, so a request to stop is honoured.
        (PriorEffect::Clear { .. }, false) if draft.record.cancel.is_some() && !draft.record.is_undoing() => {
            let reason =
                draft.record.cancel.as_ref().map(|request| request.reason.clone()).unwrap_or_default();
            ending::cancel_run(draft, reason).map(Claimed::Settled)
        }
        (PriorEffect::Clear { .. }, false) if exhausted => {
            fail::exhausted(draft, &silent()).map(Claimed::Settled)
        }
        // Something may have happened outside, and there is no attempt left to find out.
        (PriorEffect::Interrupted(_), _) if exhausted => {
            ending::pause_unresolved(draft, silent()).map(Claimed::Settled)
        }
        _ => claim::grant(draft, claim, stand, before),
    }
}
