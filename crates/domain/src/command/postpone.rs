//! Postpone: what a step would do could not be said yet, because the outside did not answer when it was
//! asked how things stand. Nobody holds the step, and this attempt has intended nothing.

use crate::draft::Draft;
use crate::failure::{self, Failure};
use crate::machine::RunStatus;
use crate::plan::Work;
use crate::record::Live;
use crate::refusal::Refusal;
use crate::time::Millis;

use super::retry::{self, Postponed, Retried};
use super::{Command, ending, fail};

/// The current step is due again later, unless its attempts are used up. One that goes on by a person's word
/// goes back to that person: their word is for this attempt, and what they were asked about is still open. What others
/// have approved for it is withdrawn, as whenever a step pauses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postpone {
    /// Why.
    pub failure: Failure,
    /// How long the other side asked us to stay away.
    pub retry_after: Option<Millis>,
}

impl Command for Postpone {
    type Answer = Retried;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Retried, Refusal> {
        draft.open()?;
        if draft.record.status == RunStatus::Paused {
            return Err(Refusal::Paused { run: draft.record.key.clone() });
        }
        if !draft.record.is_undoing() && !matches!(draft.step()?.work, Work::Call(_)) {
            return Err(Refusal::WrongWork { expected: "a call" });
        }
        let approved = match &draft.record.live {
            Live::Ready { authorised: None, approved, .. } => approved.clone(),
            Live::Retrying { open: None, approved, not_before, .. } if *not_before <= draft.now() => {
                approved.clone()
            }
            Live::Running(lease) if lease.intent.is_none() && lease.until <= draft.now() => None,
            Live::Ready { authorised: Some(_), .. } => {
                let unknown = Failure::after(&self.failure, failure::OUTCOME_UNKNOWN);
                return ending::pause_unresolved(draft, unknown).map(Retried::No);
            }
            Live::Retrying { .. }
            | Live::Running(_)
            | Live::Unresolved { .. }
            | Live::WaitingEvent { .. }
            | Live::WaitingApproval { .. }
            | Live::Over { .. } => {
                return Err(Refusal::WrongWork { expected: "a step whose action is still to be proposed" });
            }
        };
        let attempt = draft.record.live.attempt();
        if draft.step()?.retry.is_exhausted_by(attempt) {
            return fail::exhausted(draft, &self.failure).map(Retried::No);
        }
        let postponed =
            Postponed { failure: self.failure, retry_after: self.retry_after, open: None, approved };
        retry::schedule(draft, attempt, postponed)
    }
}
