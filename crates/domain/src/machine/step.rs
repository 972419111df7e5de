//! The state machine of steps.
//!
//! [`StepStatus::after`] is the transition table.

use serde::{Deserialize, Serialize};
use strum::{Display, IntoStaticStr, VariantArray};

/// The status of a step.
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
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StepStatus {
    /// An earlier step is not done.
    Pending,
    /// Can be claimed.
    Ready,
    /// Leased by a worker.
    Running,
    /// Waits for an approval.
    WaitingApproval,
    /// Waits for an event.
    WaitingEvent,
    /// An attempt failed; another is scheduled, or an operator must decide.
    FailedRetryable,
    /// Done.
    Succeeded,
    /// Failed permanently.
    FailedTerminal,
    /// Stopped before it was done.
    Canceled,
    /// Done and undone.
    RolledBack,
}

/// An input of the step state machine.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, VariantArray,
)]
#[serde(rename_all = "snake_case")]
pub enum StepTransition {
    /// All earlier steps are done.
    #[strum(to_string = "become ready")]
    Activate,
    /// A worker leases the step, or takes over an expired lease.
    #[strum(to_string = "be claimed")]
    Claim,
    /// The step waits for an event.
    #[strum(to_string = "wait for an event")]
    OpenWait,
    /// The step requests an approval.
    #[strum(to_string = "wait for approval")]
    OpenGate,
    /// The step is done.
    #[strum(to_string = "succeed")]
    Succeed,
    /// The attempt failed, or its outcome is unknown.
    #[strum(to_string = "be retried")]
    Retry,
    /// The step can be attempted again.
    #[strum(to_string = "be attempted again")]
    Reopen,
    /// The step failed permanently.
    #[strum(to_string = "fail")]
    Fail,
    /// The step is stopped.
    #[strum(to_string = "be canceled")]
    Cancel,
    /// The step is undone.
    #[strum(to_string = "be rolled back")]
    RollBack,
}

impl StepTransition {
    /// Every move.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// A move that the current status does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a step that is {from} cannot {by}")]
pub struct IllegalStepMove {
    /// The current status.
    pub from: StepStatus,
    /// The rejected move.
    pub by: StepTransition,
}

impl StepStatus {
    /// Every status.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The status after `by`: the transition table.
    #[expect(clippy::match_same_arms, reason = "a row for each legal move")]
    pub fn after(self, by: StepTransition) -> Result<Self, IllegalStepMove> {
        use StepStatus::{
            Canceled, FailedRetryable, FailedTerminal, Pending, Ready, RolledBack, Running, Succeeded,
            WaitingApproval, WaitingEvent,
        };
        use StepTransition as M;
        match (self, by) {
            (Pending, M::Activate) => Ok(Ready),
            // From running: a take-over. The larger fence rejects the previous worker's writes.
            (Ready | FailedRetryable | Running, M::Claim) => Ok(Running),
            (Ready, M::OpenWait) => Ok(WaitingEvent),
            (Ready | FailedRetryable | Running, M::OpenGate) => Ok(WaitingApproval),
            // From ready: the receipt already has the result, or the event is buffered.
            (Ready | FailedRetryable | Running | WaitingApproval | WaitingEvent, M::Succeed) => Ok(Succeeded),
            // From waiting: the approval of a rollback was rejected, and an operator must decide.
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

    /// Whether the step has ended. Only a rollback can still change it.
    pub fn is_terminal(self) -> bool {
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

    /// The name used in the API and in files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_step_can_only_roll_back_from_succeeded() {
        for status in StepStatus::ALL.iter().copied().filter(|status| status.is_terminal()) {
            for &by in StepTransition::ALL {
                let legal = status == StepStatus::Succeeded && by == StepTransition::RollBack;
                assert_eq!(status.after(by).is_ok(), legal, "{status} {by:?}");
            }
        }
    }

    #[test]
    fn pending_step_cannot_be_claimed() {
        assert!(StepStatus::Pending.after(StepTransition::Claim).is_err());
    }
}
