//! Pause: an operator wants to look before the run goes on. A step that is held finishes first.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::machine::RunStatus;
use crate::record::{Live, Request};
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, Advanced};

/// A wish to hold the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Why.
    pub reason: String,
}

impl Command for Pause {
    /// `None` while the current step is held: the run pauses when that has finished.
    type Answer = Option<Advanced>;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Self::Answer, Refusal> {
        draft.open()?;
        let request = Request { by: draft.stamp.by.id.clone(), reason: self.reason, at: draft.stamp.now };
        match (&draft.record.live, draft.record.status) {
            (_, RunStatus::Paused) => Ok(Some(Advanced::Paused)),
            (Live::Running(_), _) => {
                draft.record_event(EventBody::PauseRequested { reason: request.reason.clone() });
                draft.record.pause = Some(request);
                Ok(None)
            }
            _ => ending::pause_run(draft, request).map(Some),
        }
    }
}
