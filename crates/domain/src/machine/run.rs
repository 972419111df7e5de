//! The run machine.
//!
//! Statuses are the ones people see; moves are what decisions do. A terminal run has no row.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Admitted; no step has been claimed.
    Queued,
    /// A step is being worked on, or is ready to be.
    Running,
    /// A person is asked.
    WaitingApproval,
    /// An event from outside is awaited.
    WaitingEvent,
    /// An operator must say what to do.
    Paused,
    /// Effects are being taken back, newest first.
    RollingBack,
    /// An attempt failed and another is due.
    FailedRetryable,
    /// Every step succeeded.
    Succeeded,
    /// A step failed for good.
    FailedTerminal,
    /// Somebody stopped it.
    Canceled,
}

/// What can be done to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunMove {
    /// A worker takes the current step, or its undoing.
    Claim,
    /// The current step waits for an event.
    OpenWait,
    /// The current step asks a person.
    OpenGate,
    /// The current step succeeded and another follows.
    Continue,
    /// The last step succeeded.
    Complete,
    /// An attempt failed; another is due.
    Retry,
    /// A step failed for good.
    Fail,
    /// The run is stopped.
    Cancel,
    /// The run waits for an operator.
    Pause,
    /// An operator said to go on.
    Resume,
    /// Effects are to be taken back.
    RollBack,
}

impl RunMove {
    /// Every move.
    pub const ALL: [Self; 11] = [
        Self::Claim,
        Self::OpenWait,
        Self::OpenGate,
        Self::Continue,
        Self::Complete,
        Self::Retry,
        Self::Fail,
        Self::Cancel,
        Self::Pause,
        Self::Resume,
        Self::RollBack,
    ];
}

/// A move that the table has no row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a run that is {from} cannot {by:?}")]
pub struct IllegalRunMove {
    /// Where the run stands.
    pub from: RunStatus,
    /// What was tried.
    pub by: RunMove,
}

impl RunStatus {
    /// Every status, in the order people meet them.
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Running,
        Self::WaitingApproval,
        Self::WaitingEvent,
        Self::Paused,
        Self::RollingBack,
        Self::FailedRetryable,
        Self::Succeeded,
        Self::FailedTerminal,
        Self::Canceled,
    ];

    /// Where `by` leads from here: the table.
    #[expect(clippy::match_same_arms, reason = "a row for each legal move")]
    pub fn after(self, by: RunMove) -> Result<Self, IllegalRunMove> {
        use RunMove as M;
        use RunStatus::{
            Canceled, FailedRetryable, FailedTerminal, Paused, Queued, RollingBack, Running, Succeeded,
            WaitingApproval, WaitingEvent,
        };
        match (self, by) {
            (Queued | Running | FailedRetryable, M::Claim) => Ok(Running),
            // Taking back is work like any other, but the run shows what it is for.
            (RollingBack, M::Claim | M::Retry | M::Continue | M::RollBack) => Ok(RollingBack),

            (Queued | Running, M::OpenWait) => Ok(WaitingEvent),
            (Queued | Running | FailedRetryable | RollingBack, M::OpenGate) => Ok(WaitingApproval),
            (Running | WaitingApproval | WaitingEvent, M::Continue) => Ok(Running),
            (Running | WaitingApproval | WaitingEvent, M::Complete) => Ok(Succeeded),

            // From paused: it was waiting for its next attempt, and goes on waiting.
            (Queued | Running | FailedRetryable | Paused, M::Retry) => Ok(FailedRetryable),
            (Queued | Running | WaitingApproval | WaitingEvent | FailedRetryable | RollingBack, M::Fail) => {
                Ok(FailedTerminal)
            }

            // A rejection or an undo that failed asks an operator; so does an outcome nobody knows.
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

    /// Whether nothing can happen to the run any more.
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

    /// The status as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::WaitingApproval => "waiting_approval",
            Self::WaitingEvent => "waiting_event",
            Self::Paused => "paused",
            Self::RollingBack => "rolling_back",
            Self::FailedRetryable => "failed_retryable",
            Self::Succeeded => "succeeded",
            Self::FailedTerminal => "failed_terminal",
            Self::Canceled => "canceled",
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a run status; one of queued, running, waiting_approval, waiting_event, paused, rolling_back, failed_retryable, succeeded, failed_terminal, canceled is"
)]
pub struct UnknownRunStatus(String);

impl std::str::FromStr for RunStatus {
    type Err = UnknownRunStatus;
    fn from_str(text: &str) -> Result<Self, UnknownRunStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| UnknownRunStatus(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_run_has_no_row() {
        for status in RunStatus::ALL.into_iter().filter(|status| status.is_terminal()) {
            for by in RunMove::ALL {
                assert_eq!(status.after(by), Err(IllegalRunMove { from: status, by }));
            }
        }
    }

    #[test]
    fn a_run_that_is_not_terminal_can_be_canceled() {
        for status in RunStatus::ALL.into_iter().filter(|status| !status.is_terminal()) {
            assert_eq!(status.after(RunMove::Cancel), Ok(RunStatus::Canceled));
        }
    }

    #[test]
    fn a_run_that_is_neither_over_nor_held_can_be_held() {
        for status in RunStatus::ALL.into_iter().filter(|status| !status.is_terminal()) {
            let held = status == RunStatus::Paused;
            assert_eq!(status.after(RunMove::Pause).is_ok(), !held, "{status}");
        }
    }

    #[test]
    fn every_status_reads_back_from_its_name() {
        for status in RunStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
    }
}
