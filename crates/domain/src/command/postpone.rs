//! Postpone: the tool could not propose an action, because the external system did not respond when the tool observed
//! its state. No worker holds the step, and this attempt has no intent.

use crate::draft::Draft;
use crate::failure::{self, Failure};
use crate::machine::RunStatus;
use crate::plan::Work;
use crate::record::StepState;
use crate::refusal::Refusal;
use crate::time::Millis;

use super::retry::{self, Postponed, RetryResult};
use super::{Command, ending, fail};

/// Schedules the current step again, unless its attempts are exhausted.
///
/// A step that an operator resumed after an unknown outcome goes back to the operator instead: the decision was for this
/// attempt only, and the outcome is still unknown. Its approval is withdrawn, as for every step that pauses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postpone {
    /// Why.
    pub failure: Failure,
    /// The delay that the external system asked for.
    pub retry_after: Option<Millis>,
}

impl Command for Postpone {
    type Output = RetryResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<RetryResult, Refusal> {
        draft.ensure_active()?;
        if draft.record.status == RunStatus::Paused {
            return Err(Refusal::Paused { run: draft.record.key.clone() });
        }
        if !draft.record.is_rolling_back() && !matches!(draft.step()?.work, Work::Call(_)) {
            return Err(Refusal::WrongState { expected: "a call" });
        }
        let approved = match &draft.record.step_state {
            StepState::Ready { authorized: None, approved, .. } => approved.clone(),
            StepState::Retrying { open: None, approved, not_before, .. } if *not_before <= draft.now() => {
                approved.clone()
            }
            StepState::Running(lease) if lease.intent.is_none() && lease.until <= draft.now() => None,
            StepState::Ready { authorized: Some(_), .. } => {
                let unknown = Failure::after(&self.failure, failure::OUTCOME_UNKNOWN);
                return ending::pause_unresolved(draft, unknown).map(RetryResult::NotRetried);
            }
            StepState::Retrying { .. }
            | StepState::Running(_)
            | StepState::Unresolved { .. }
            | StepState::WaitingEvent { .. }
            | StepState::WaitingApproval { .. }
            | StepState::Ended { .. } => {
                return Err(Refusal::WrongState { expected: "a step whose action is not proposed yet" });
            }
        };
        let attempt = draft.record.step_state.attempt();
        if draft.step()?.retry.is_exhausted_by(attempt) {
            return fail::fail_exhausted(draft, &self.failure).map(RetryResult::NotRetried);
        }
        let postponed =
            Postponed { failure: self.failure, retry_after: self.retry_after, open: None, approved };
        retry::schedule(draft, attempt, postponed)
    }
}
