//! Time out: the deadline of a wait or an approval has passed.

use serde_json::json;

use crate::approval::ApprovalStatus;
use crate::draft::Draft;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::id::ApprovalId;
use crate::payload::{Fingerprint, Payload};
use crate::plan::OnTimeout;
use crate::record::StepState;
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::Command;
use super::ending::{self, AfterStep, PerformedEffect, Success};

/// The deadline of the current step has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOut;

impl Command for TimeOut {
    type Output = AfterStep;

    fn decide(self, draft: &mut Draft<'_>) -> Result<AfterStep, Refusal> {
        draft.ensure_active()?;
        match draft.record.step_state.clone() {
            StepState::WaitingEvent { event, deadline, on_timeout } => {
                ensure_passed(draft, deadline)?;
                let message = format!("event {event} did not arrive before the deadline");
                let failure = Failure::new(failure::WAIT_TIMED_OUT, message);
                end_wait(draft, &failure, on_timeout)
            }
            StepState::WaitingApproval { approval, deadline, .. } => {
                ensure_passed(draft, deadline)?;
                expire(draft, approval)
            }
            StepState::Ready { .. }
            | StepState::Running(_)
            | StepState::Retrying { .. }
            | StepState::Unresolved { .. }
            | StepState::Ended { .. } => Err(Refusal::WrongState { expected: "a step that waits" }),
        }
    }
}

fn ensure_passed(draft: &Draft<'_>, deadline: Timestamp) -> Result<(), Refusal> {
    if deadline <= draft.now() { Ok(()) } else { Err(Refusal::NotBefore { at: deadline }) }
}

/// An undecided approval counts as rejected when it expires.
fn expire(draft: &mut Draft<'_>, id: ApprovalId) -> Result<AfterStep, Refusal> {
    let mut approval = draft.approval(&id)?;
    approval.status = ApprovalStatus::Expired;
    draft.publish_approval(approval);
    let failure = Failure::new(failure::APPROVAL_EXPIRED, "the approval expired without a decision");
    let body = EventBody::ApprovalExpired { approval: id, failure: failure.clone() };
    ending::fail_step_with(draft, failure, body)
}

fn end_wait(draft: &mut Draft<'_>, failure: &Failure, on_timeout: OnTimeout) -> Result<AfterStep, Refusal> {
    let body = EventBody::TimedOut { failure: failure.clone() };
    match on_timeout {
        OnTimeout::Fail => ending::fail_run(draft, failure, body),
        OnTimeout::Continue => {
            let output = json!({ "timed_out": true });
            let success = Success {
                fingerprint: Fingerprint::of(&output),
                output: Payload::Inline(output),
                attempt: None,
                receipt: None,
                effect: PerformedEffect::None,
                cost_microusd: 0,
                usage: None,
            };
            ending::close_step(draft, success, body)
        }
    }
}
