//! Open a wait or a gate. The runtime does this itself; no worker claims such a step.

use crate::approval::Subject;
use crate::draft::{Draft, SignalChange};
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::machine::{RunStatus, RunTransition, StepTransition};
use crate::plan::{ApprovalTiming, Work};
use crate::record::{Signal, StepState};
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, AfterStep};
use super::govern::{self, ApprovalSpec};
use super::signal;

/// A question fits on one approval card.
const QUESTION_CHARS_MAX: usize = 1_000;

/// The current step waits for its event, unless the event is already buffered.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenWait {
    /// The first buffered delivery of the event, if the record names one.
    pub buffered: Option<Signal>,
}

/// The current step requests an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenGate {
    /// The question, with its expressions evaluated.
    pub message: String,
}

/// The result of opening a wait or a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    /// The step waits.
    Waiting,
    /// The step ended at once: its event was buffered, or its question is too long.
    Ended(AfterStep),
}

impl Command for OpenWait {
    type Output = WaitResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<WaitResult, Refusal> {
        ensure_ready(draft)?;
        let Work::Wait { event, timeout, on_timeout } = &draft.step()?.work else {
            return Err(Refusal::WrongState { expected: "a wait" });
        };
        let index = draft.record.buffered_signals.iter().position(|buffered| buffered.event == *event);
        match (index, self.buffered) {
            (Some(index), Some(signal)) if draft.record.buffered_signals[index].signal == signal.id => {
                draft.record.buffered_signals.remove(index);
                draft.signals.push(SignalChange::Use(signal.id.clone()));
                signal::deliver(draft, signal).map(WaitResult::Ended)
            }
            (Some(_), _) => Err(Refusal::WrongState { expected: "a wait whose event is not buffered" }),
            (None, _) => {
                let deadline = draft.now() + *timeout;
                let step_state =
                    StepState::WaitingEvent { event: event.clone(), deadline, on_timeout: *on_timeout };
                draft.move_step(StepTransition::OpenWait, step_state)?;
                draft.move_run(RunTransition::OpenWait)?;
                draft.record_event(EventBody::WaitOpened { event: event.clone(), deadline });
                Ok(WaitResult::Waiting)
            }
        }
    }
}

impl Command for OpenGate {
    type Output = WaitResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<WaitResult, Refusal> {
        ensure_ready(draft)?;
        let Work::Gate { expires_after, on_reject, requirement, .. } = &draft.step()?.work else {
            return Err(Refusal::WrongState { expected: "an approval gate" });
        };
        // A question that is cut could hide what the approver decides about.
        let chars = self.message.chars().count();
        if chars > QUESTION_CHARS_MAX {
            let text =
                format!("the message has {chars} characters; at most {QUESTION_CHARS_MAX} are allowed");
            let failure = Failure::new(failure::EXPRESSION, text);
            return ending::fail_step(draft, failure).map(WaitResult::Ended);
        }
        let message = self.message;
        let spec = ApprovalSpec {
            subject: Subject::Question { message },
            requirement: requirement.clone(),
            on_reject: *on_reject,
            timing: Some(ApprovalTiming { expires_after: *expires_after, ..draft.plan.approval_timing }),
            attempted_at: None,
        };
        govern::request_approval(draft, spec, (0, None))?;
        Ok(WaitResult::Waiting)
    }
}

fn ensure_ready(draft: &Draft<'_>) -> Result<(), Refusal> {
    draft.ensure_active()?;
    match draft.record.step_state {
        _ if draft.record.status == RunStatus::Paused => {
            Err(Refusal::Paused { run: draft.record.key.clone() })
        }
        StepState::Ready { .. } => Ok(()),
        _ => Err(Refusal::WrongState { expected: "a step that is ready" }),
    }
}
