//! Retry: an attempt failed in a way that another attempt may mend.
//!
//! What matters is what is *known*. If the effect is known not to have happened, the intent is closed as
//! failed. If it may have happened, the intent stays open, and the class of the effect says whether
//! anybody may act again.

use crate::draft::{Draft, ReceiptChange};
use crate::effect::EffectClass;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::id::{ApprovalId, Blast, Fence};
use crate::machine::{RunMove, StepMove};
use crate::receipt::{Receipt, ReceiptState};
use crate::record::{Intent, Lease, Live};
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};

use super::ending::{self, Advanced};
use super::{Command, fail};

/// What is known about the effect of a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It did not happen.
    DidNotHappen,
    /// It may have happened.
    MayHaveHappened,
}

/// An attempt failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// The fence it was made under.
    pub fence: Fence,
    /// Why it failed.
    pub failure: Failure,
    /// What is known about its effect.
    pub certainty: Certainty,
    /// How long the other side asked us to stay away.
    pub retry_after: Option<Millis>,
    /// The intent that came with the grant.
    pub receipt: Option<Receipt>,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retried {
    /// Another attempt is due at this time.
    At(Timestamp),
    /// There is no other attempt.
    No(Advanced),
}

impl Command for Retry {
    type Answer = Retried;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Retried, Refusal> {
        let lease = draft.held(self.fence)?;
        let exhausted = draft.step()?.retry.is_exhausted_by(lease.attempt);
        let open = lease.intent.is_some() && self.certainty == Certainty::MayHaveHappened;
        let opaque = lease.intent.as_ref().is_some_and(|intent| intent.class == EffectClass::Opaque);
        if open && (exhausted || opaque) {
            let unknown = Failure::after(&self.failure, failure::OUTCOME_UNKNOWN);
            return ending::pause_unresolved(draft, unknown).map(Retried::No);
        }
        if !open {
            close_failed(draft, self.receipt, &self.failure);
            if let Some(stopped) = stop_if_asked(draft)? {
                return Ok(Retried::No(stopped));
            }
        }
        if exhausted {
            return fail::exhausted(draft, &self.failure).map(Retried::No);
        }
        let approved = lease.approved.clone().filter(|_| !asks_again(draft, &lease));
        let open = lease.intent.filter(|_| open);
        let postponed = Postponed { failure: self.failure, retry_after: self.retry_after, open, approved };
        let retried = schedule(draft, lease.attempt, postponed)?;
        match draft.record.pause.clone() {
            Some(request) => ending::pause_run(draft, request).map(Retried::No),
            None => Ok(retried),
        }
    }
}

/// Whether people must be asked again before another attempt: for an action that cannot be asked about, and
/// whose mistake would be felt.
fn asks_again(draft: &Draft<'_>, lease: &Lease) -> bool {
    let opaque = lease.intent.as_ref().is_some_and(|intent| intent.class == EffectClass::Opaque);
    opaque && draft.step().is_ok_and(|step| step.blast >= Blast::Medium)
}

/// Nothing happened outside, so a request to stop is honoured now.
fn stop_if_asked(draft: &mut Draft<'_>) -> Result<Option<Advanced>, Refusal> {
    match draft.record.cancel.clone() {
        Some(request) if !draft.record.is_undoing() => ending::cancel_run(draft, request.reason).map(Some),
        Some(_) | None => Ok(None),
    }
}

/// Closes an intent as known not to have happened.
pub(super) fn close_failed(draft: &mut Draft<'_>, receipt: Option<Receipt>, failure: &Failure) {
    let Some(receipt) = receipt else { return };
    let replaces = Some(receipt.revision);
    let revision = receipt.revision.saturating_add(1);
    let state = ReceiptState::Failed { at: draft.now(), failure: failure.clone() };
    let receipt = Receipt { revision, state, ..receipt };
    draft.receipts.push(ReceiptChange { replaces, displaces: None, receipt });
}

/// An attempt that failed, with what decides when the next one is due.
pub(super) struct Postponed {
    pub(super) failure: Failure,
    pub(super) retry_after: Option<Millis>,
    /// The effect that was intended and whose outcome is not known.
    pub(super) open: Option<Intent>,
    /// What people have approved, if that covers another attempt.
    pub(super) approved: Option<ApprovalId>,
}

/// Makes the step due again.
pub(super) fn schedule(
    draft: &mut Draft<'_>,
    attempt: u32,
    postponed: Postponed,
) -> Result<Retried, Refusal> {
    let Postponed { failure, retry_after, open, approved } = postponed;
    let delay = draft.step()?.retry.delay(attempt, &draft.jitter_seed(), retry_after);
    let not_before = draft.now() + delay;
    let live = Live::Retrying {
        attempt: attempt.saturating_add(1),
        not_before,
        failure: failure.clone(),
        open,
        approved,
    };
    draft.move_step(StepMove::Retry, live)?;
    draft.move_run(RunMove::Retry)?;
    draft.record_event(EventBody::AttemptFailed { number: attempt, failure, not_before });
    Ok(Retried::At(not_before))
}
