//! Retry: an attempt failed, and another attempt may succeed.
//!
//! If the effect is known not to have happened, the intent is closed as failed. If it may have happened, the intent
//! stays open, and its effect class decides whether another attempt is allowed.

use crate::draft::{Draft, ReceiptChange};
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::id::{ApprovalId, Fence};
use crate::machine::{RunTransition, StepTransition};
use crate::receipt::{Receipt, ReceiptState};
use crate::record::{Intent, Lease, StepState};
use crate::refusal::Refusal;
use crate::time::{Millis, Timestamp};
use crate::validation;

use super::ending::{self, AfterStep};
use super::{Command, fail};

/// Whether the effect of a failed attempt may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectOutcome {
    /// It did not happen.
    DidNotHappen,
    /// It may have happened.
    MayHaveHappened,
}

/// Records a failed attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Retry {
    /// The fence of the lease.
    pub fence: Fence,
    /// Why the attempt failed.
    pub failure: Failure,
    /// Whether its effect may have happened.
    pub certainty: EffectOutcome,
    /// The delay that the external system asked for.
    pub retry_after: Option<Millis>,
    /// The intent that came with the grant.
    pub receipt: Option<Receipt>,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryResult {
    /// The next attempt is due at this time.
    Scheduled(Timestamp),
    /// There is no further attempt.
    NotRetried(AfterStep),
}

impl Command for Retry {
    type Output = RetryResult;

    fn decide(mut self, draft: &mut Draft<'_>) -> Result<RetryResult, Refusal> {
        let lease = draft.lease(self.fence)?;
        ending::charge(draft, lease.attempt, self.failure.charge.take().map(|charge| *charge));
        let is_risky = lease.intent.as_ref().is_some_and(Intent::is_risky);
        let exhausted = draft.step()?.retry.is_exhausted_by_effect(lease.attempt, is_risky);
        let open = lease.intent.is_some() && self.certainty == EffectOutcome::MayHaveHappened;
        if open && (exhausted || is_risky) {
            let unknown = Failure::after(&self.failure, failure::OUTCOME_UNKNOWN);
            return ending::pause_unresolved(draft, unknown).map(RetryResult::NotRetried);
        }
        if !open {
            close_failed(draft, self.receipt, &self.failure);
            if let Some(canceled) = cancel_if_requested(draft)? {
                return Ok(RetryResult::NotRetried(canceled));
            }
        }
        if exhausted {
            return fail::fail_exhausted(draft, &self.failure).map(RetryResult::NotRetried);
        }
        // An effect that may have happened is continued: it is still the one effect that was approved.
        let approved = lease.approved.clone().filter(|_| open || !needs_new_approval(draft, &lease));
        let open = lease.intent.filter(|_| open);
        let postponed = Postponed { failure: self.failure, retry_after: self.retry_after, open, approved };
        let scheduled = schedule(draft, lease.attempt, postponed)?;
        match draft.record.pause.clone() {
            Some(request) => ending::pause_run(draft, request).map(RetryResult::NotRetried),
            None => Ok(scheduled),
        }
    }
}

/// Whether an attempt after a failed one needs another approval.
fn needs_new_approval(draft: &Draft<'_>, lease: &Lease) -> bool {
    let Some(intent) = &lease.intent else { return false };
    draft.step().is_ok_and(|step| validation::repeats_need_approval(step, intent.destructive))
}

/// No effect happened, so a request to cancel takes effect now.
fn cancel_if_requested(draft: &mut Draft<'_>) -> Result<Option<AfterStep>, Refusal> {
    match draft.record.cancel.clone() {
        Some(request) if !draft.record.is_rolling_back() => {
            ending::cancel_run(draft, request.reason).map(Some)
        }
        Some(_) | None => Ok(None),
    }
}

/// Closes an intent whose effect is known not to have happened.
pub(super) fn close_failed(draft: &mut Draft<'_>, receipt: Option<Receipt>, failure: &Failure) {
    let Some(receipt) = receipt else { return };
    let replaces = Some(receipt.revision);
    let revision = receipt.revision.saturating_add(1);
    let state = ReceiptState::Failed { at: draft.now(), failure: failure.clone() };
    let receipt = Receipt { revision, state, ..receipt };
    draft.receipts.push(ReceiptChange { replaces, displaces: None, receipt });
}

/// A failed attempt to schedule again.
pub(super) struct Postponed {
    pub(super) failure: Failure,
    pub(super) retry_after: Option<Millis>,
    /// The intent whose outcome is unknown.
    pub(super) open: Option<Intent>,
    /// The approval, if it covers another attempt.
    pub(super) approved: Option<ApprovalId>,
}

/// Schedules the next attempt.
pub(super) fn schedule(
    draft: &mut Draft<'_>,
    attempt: u32,
    postponed: Postponed,
) -> Result<RetryResult, Refusal> {
    let Postponed { failure, retry_after, open, approved } = postponed;
    let delay = draft.step()?.retry.delay(attempt, &draft.jitter_seed(), retry_after);
    let not_before = draft.now() + delay;
    let step_state = StepState::Retrying {
        attempt: attempt.saturating_add(1),
        not_before,
        failure: failure.clone(),
        open,
        approved,
    };
    draft.move_step(StepTransition::Retry, step_state)?;
    draft.move_run(RunTransition::Retry)?;
    draft.record_event(EventBody::AttemptFailed { number: attempt, failure, not_before });
    Ok(RetryResult::Scheduled(not_before))
}
