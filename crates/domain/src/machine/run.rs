//! The state machine of runs.
//!
//! [`RunStatus::after`] is the transition table. A terminal run has no transitions.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// The status of a run.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", parse_err_ty = UnknownRunStatus, parse_err_fn = UnknownRunStatus::new)]
pub enum RunStatus {
    /// Admitted; no step was claimed.
    Queued,
    /// A step is ready or in progress.
    Running,
    /// The current step waits for an approval.
    WaitingApproval,
    /// The current step waits for an event.
    WaitingEvent,
    /// Waits for an operator.
    Paused,
    /// Undoes its effects, newest first.
    RollingBack,
    /// An attempt failed, and another is scheduled.
    FailedRetryable,
    /// Every step succeeded.
    Succeeded,
    /// A step failed permanently.
    FailedTerminal,
    /// A user stopped the run.
    Canceled,
}

/// An input of the run state machine.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum RunTransition {
    /// A worker claims the current step, or its rollback.
    #[strum(to_string = "be claimed")]
    Claim,
    /// The current step waits for an event.
    #[strum(to_string = "wait for an event")]
    OpenWait,
    /// The current step requests an approval.
    #[strum(to_string = "wait for approval")]
    OpenGate,
    /// The current step succeeded, and another follows.
    #[strum(to_string = "continue")]
    Continue,
    /// The last step succeeded.
    #[strum(to_string = "be completed")]
    Complete,
    /// An attempt failed, and another is scheduled.
    #[strum(to_string = "be retried")]
    Retry,
    /// A step failed permanently.
    #[strum(to_string = "fail")]
    Fail,
    /// The run is stopped.
    #[strum(to_string = "be canceled")]
    Cancel,
    /// The run waits for an operator.
    #[strum(to_string = "be paused")]
    Pause,
    /// An operator continues the run.
    #[strum(to_string = "continue")]
    Resume,
    /// The run's effects are to be undone.
    #[strum(to_string = "be rolled back")]
    RollBack,
}

impl RunTransition {
    /// Every move.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// A move that the current status does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a run that is {from} cannot {by}")]
pub struct IllegalRunMove {
    /// The current status.
    pub from: RunStatus,
    /// The rejected move.
    pub by: RunTransition,
}

impl RunStatus {
    /// Every status.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The status after `by`: the transition table.
    #[expect(clippy::match_same_arms, reason = "a row for each legal move")]
    pub fn after(self, by: RunTransition) -> Result<Self, IllegalRunMove> {
        use RunStatus::{
            Canceled, FailedRetryable, FailedTerminal, Paused, Queued, RollingBack, Running, Succeeded,
            WaitingApproval, WaitingEvent,
        };
        use RunTransition as M;
        match (self, by) {
            (Queued | Running | FailedRetryable, M::Claim) => Ok(Running),
            // A rollback claims and retries like forward work; the status stays `rolling_back`.
            (RollingBack, M::Claim | M::Retry | M::Continue | M::RollBack) => Ok(RollingBack),

            (Queued | Running, M::OpenWait) => Ok(WaitingEvent),
            (Queued | Running | FailedRetryable | RollingBack, M::OpenGate) => Ok(WaitingApproval),
            (Running | WaitingApproval | WaitingEvent, M::Continue) => Ok(Running),
            (Running | WaitingApproval | WaitingEvent, M::Complete) => Ok(Succeeded),

            // From paused: the run was waiting for its next attempt, and still is.
            (Queued | Running | FailedRetryable | Paused, M::Retry) => Ok(FailedRetryable),
            (Queued | Running | WaitingApproval | WaitingEvent | FailedRetryable | RollingBack, M::Fail) => {
                Ok(FailedTerminal)
            }

            // Also after a rejection, a failed rollback or an unknown outcome.
            (Queued | Running | FailedRetryable | WaitingApproval | WaitingEvent | RollingBack, M::Pause) => {
                Ok(Paused)
            }
            (Paused, M::Resume) => Ok(Running),
            (Queued | Running | WaitingApproval | WaitingEvent | FailedRetryable | Paused, M::RollBack) => {
                Ok(RollingBack)
            }

            (
                Queued | Running | WaitingApproval | WaitingEvent | Paused | RollingBack | FailedRetryable,
                M::Cancel,
            ) => Ok(Canceled),

            (
                Queued | Running | WaitingApproval | WaitingEvent | Paused | RollingBack | FailedRetryable
                | Succeeded | FailedTerminal | Canceled,
                _,
            ) => Err(IllegalRunMove { from: self, by }),
        }
    }

    /// Whether the run has ended.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Succeeded | Self::FailedTerminal | Self::Canceled => true,
            Self::Queued
            | Self::Running
            | Self::WaitingApproval
            | Self::WaitingEvent
            | Self::Paused
            | Self::RollingBack
            | Self::FailedRetryable => false,
        }
    }

    /// The name used in the API and in files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The text is not a run status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a run status; use queued, running, waiting_approval, waiting_event, paused, rolling_back, failed_retryable, succeeded, failed_terminal or canceled"
)]
pub struct UnknownRunStatus(String);

impl UnknownRunStatus {
    fn new(text: &str) -> Self {
        Self(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_run_has_no_transitions() {
        for status in RunStatus::ALL.iter().copied().filter(|status| status.is_terminal()) {
            for &by in RunTransition::ALL {
                assert_eq!(status.after(by), Err(IllegalRunMove { from: status, by }));
            }
        }
    }

    #[test]
    fn illegal_transition_is_named_in_words() {
        let error = RunStatus::WaitingEvent.after(RunTransition::OpenGate).unwrap_err();
        assert_eq!(error.to_string(), "a run that is waiting_event cannot wait for approval");
    }

    #[test]
    fn active_run_can_be_canceled() {
        for status in RunStatus::ALL.iter().copied().filter(|status| !status.is_terminal()) {
            assert_eq!(status.after(RunTransition::Cancel), Ok(RunStatus::Canceled));
        }
    }

    #[test]
    fn active_run_can_be_paused_once() {
        for status in RunStatus::ALL.iter().copied().filter(|status| !status.is_terminal()) {
            let is_paused = status == RunStatus::Paused;
            assert_eq!(status.after(RunTransition::Pause).is_ok(), !is_paused, "{status}");
        }
    }

    #[test]
    fn status_round_trips() {
        for &status in RunStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
