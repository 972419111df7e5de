//! The step machine.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// An earlier step is not done.
    Pending,
    /// May be claimed.
    Ready,
    /// Held under a lease.
    Running,
    /// A person is asked.
    WaitingApproval,
    /// An event is awaited.
    WaitingEvent,
    /// An attempt failed; another is due, or a person must say so.
    FailedRetryable,
    /// Done.
    Succeeded,
    /// Failed for good.
    FailedTerminal,
    /// Stopped before it was done.
    Canceled,
    /// Done and taken back.
    RolledBack,
}

/// What can be done to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepMove {
    /// All earlier steps are done.
    Activate,
    /// A worker takes it; an expired lease is taken over the same way.
    Claim,
    /// It waits for an event.
    OpenWait,
    /// It asks a person.
    OpenGate,
    /// It is done.
    Succeed,
    /// The attempt failed, or its outcome is unknown.
    Retry,
    /// It may be tried again.
    Reopen,
    /// It failed for good.
    Fail,
    /// It is stopped.
    Cancel,
    /// It is taken back.
    RollBack,
}

impl StepMove {
    /// Every move.
    pub const ALL: [Self; 10] = [
        Self::Activate,
        Self::Claim,
        Self::OpenWait,
        Self::OpenGate,
        Self::Succeed,
        Self::Retry,
        Self::Reopen,
        Self::Fail,
        Self::Cancel,
        Self::RollBack,
    ];
}

/// A move that the table has no row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a step that is {from} cannot {by:?}")]
pub struct IllegalStepMove {
    /// Where the step stands.
    pub from: StepStatus,
    /// What was tried.
    pub by: StepMove,
}

impl StepStatus {
    /// Every status.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Ready,
        Self::Running,
        Self::WaitingApproval,
        Self::WaitingEvent,
        Self::FailedRetryable,
        Self::Succeeded,
        Self::FailedTerminal,
        Self::Canceled,
        Self::RolledBack,
    ];

    /// Where `by` leads from here: the table.
    #[expect(clippy::match_same_arms, reason = "a row for each legal move")]
    pub fn after(self, by: StepMove) -> Result<Self, IllegalStepMove> {
        use StepMove as M;
        use StepStatus::{
            Canceled, FailedRetryable, FailedTerminal, Pending, Ready, RolledBack, Running, Succeeded,
            WaitingApproval, WaitingEvent,
        };
        match (self, by) {
            (Pending, M::Activate) => Ok(Ready),
            // From running, this is a take-over: the larger fence shuts the old holder out.
            (Ready | FailedRetryable | Running, M::Claim) => Ok(Running),
            (Ready, M::OpenWait) => Ok(WaitingEvent),
            (Ready | FailedRetryable | Running, M::OpenGate) => Ok(WaitingApproval),
            // From ready: the receipt already holds the result, or the event came early.
            (Ready | FailedRetryable | Running | WaitingApproval | WaitingEvent, M::Succeed) => Ok(Succeeded),
            // From waiting: the approval of an undoing was refused, and an operator must know.
            (Ready | FailedRetryable | Running | WaitingApproval, M::Retry) => Ok(FailedRetryable),
            (Ready | FailedRetryable | WaitingApproval | WaitingEvent, M::Reopen) => Ok(Ready),
            (Ready | Running | WaitingApproval | WaitingEvent | FailedRetryable, M::Fail) => {
                Ok(FailedTerminal)
            }
            (Pending | Ready | Running | WaitingApproval | WaitingEvent | FailedRetryable, M::Cancel) => {
                Ok(Canceled)
            }
            (Succeeded, M::RollBack) => Ok(RolledBack),
            (
                Pending | Ready | Running | WaitingApproval | WaitingEvent | FailedRetryable | Succeeded
                | FailedTerminal | Canceled | RolledBack,
                _,
            ) => Err(IllegalStepMove { from: self, by }),
        }
    }

    /// Whether the step is over; only taking it back can still change it.
    pub fn is_over(self) -> bool {
        match self {
            Self::Succeeded | Self::FailedTerminal | Self::Canceled | Self::RolledBack => true,
            Self::Pending
            | Self::Ready
            | Self::Running
            | Self::WaitingApproval
            | Self::WaitingEvent
            | Self::FailedRetryable => false,
        }
    }

    /// The status as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::WaitingApproval => "waiting_approval",
            Self::WaitingEvent => "waiting_event",
            Self::FailedRetryable => "failed_retryable",
            Self::Succeeded => "succeeded",
            Self::FailedTerminal => "failed_terminal",
            Self::Canceled => "canceled",
            Self::RolledBack => "rolled_back",
        }
    }
}

impl fmt::Display for StepStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_over_can_only_be_taken_back_and_only_from_succeeded() {
        for status in StepStatus::ALL.into_iter().filter(|status| status.is_over()) {
            for by in StepMove::ALL {
                let legal = status == StepStatus::Succeeded && by == StepMove::RollBack;
                assert_eq!(status.after(by).is_ok(), legal, "{status} {by:?}");
            }
        }
    }

    #[test]
    fn a_pending_step_cannot_be_claimed() {
        assert!(StepStatus::Pending.after(StepMove::Claim).is_err());
    }
}
