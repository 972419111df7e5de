//! Which step an event is about.
//!
//! Most events say so themselves. Some are decided before the step moves (a lease that ran out, say); for
//! these the place in the run is followed from event to event, which is easy because a run is linear.

use domain::plan::Plan;
use domain::{Event, EventBody, StepSeq, StepStatus};

/// Follows a run through its events, from the first on.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'p> {
    plan: &'p Plan,
    at: StepSeq,
}

impl<'p> Cursor<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Self {
        Self { plan, at: StepSeq(0) }
    }

    /// The step that `event`, the next one, is about; none if it is about the whole run.
    pub(crate) fn step(&mut self, event: &Event) -> Option<StepSeq> {
        let about = match &event.step {
            Some(moved) => Some(moved.seq),
            None => is_about_a_step(&event.body).then_some(self.at),
        };
        self.at = self.after(event);
        about
    }

    /// Where the run stands after `event`.
    fn after(&self, event: &Event) -> StepSeq {
        match (&event.body, &event.step) {
            (EventBody::RollbackStarted { from, .. }, _) => *from,
            (EventBody::StepRolledBack { .. }, Some(moved)) => {
                self.plan.undo_before(moved.seq, StepSeq(0)).unwrap_or(self.at)
            }
            (_, Some(moved)) if moved.to == StepStatus::Succeeded => moved.seq.next(),
            _ => self.at,
        }
    }
}

fn is_about_a_step(body: &EventBody) -> bool {
    match body {
        EventBody::StepSucceeded { .. }
        | EventBody::AttemptFailed { .. }
        | EventBody::StepFailed { .. }
        | EventBody::LeaseExpired { .. }
        | EventBody::OutcomeUnknown { .. }
        | EventBody::WaitOpened { .. }
        | EventBody::EventDelivered { .. }
        | EventBody::TimedOut { .. }
        | EventBody::ApprovalRequested { .. }
        | EventBody::ApprovalDecided { .. }
        | EventBody::StepRolledBack { .. } => true,
        EventBody::RunAdmitted { .. }
        | EventBody::EventKept { .. }
        | EventBody::CancelRequested { .. }
        | EventBody::RunCanceled { .. }
        | EventBody::PauseRequested { .. }
        | EventBody::RunPaused { .. }
        | EventBody::RunResumed { .. }
        | EventBody::RollbackStarted { .. } => false,
    }
}
