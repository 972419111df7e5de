//! Pause: an operator stops the run for a review. A leased step finishes first.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::machine::RunStatus;
use crate::record::{OperatorRequest, StepState};
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, AfterStep};

/// Pauses the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Why.
    pub reason: String,
}

impl Command for Pause {
    /// `None` while the current step is leased: the run pauses when the step finishes.
    type Output = Option<AfterStep>;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Self::Output, Refusal> {
        draft.ensure_active()?;
        let request =
            OperatorRequest { by: draft.context.by.id.clone(), reason: self.reason, at: draft.context.now };
        match (&draft.record.step_state, draft.record.status) {
            (_, RunStatus::Paused) => Ok(Some(AfterStep::Paused)),
            (StepState::Running(_), _) => {
                draft.record_event(EventBody::PauseRequested { reason: request.reason.clone() });
                draft.record.pause = Some(request);
                Ok(None)
            }
            _ => ending::pause_run(draft, request).map(Some),
        }
    }
}
