//! Time out: a deadline passed before what the step waits for came.

use serde_json::json;

use crate::draft::Draft;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::payload::{Fingerprint, Payload};
use crate::plan::OnTimeout;
use crate::record::Live;
use crate::refusal::Refusal;
use crate::time::Timestamp;

use super::Command;
use super::ending::{self, Advanced, Success};

/// The deadline of the current step has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOut;

impl Command for TimeOut {
    type Answer = Advanced;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Advanced, Refusal> {
        draft.open()?;
        match draft.record.live.clone() {
            Live::WaitingEvent { event, deadline, on_timeout } => {
                passed(draft, deadline)?;
                let failure = Failure::new(failure::WAIT_TIMED_OUT, format!("no event {event} came in time"));
                end_wait(draft, failure, on_timeout)
            }
            Live::WaitingApproval { deadline, .. } => {
                passed(draft, deadline)?;
                let failure = Failure::new(failure::APPROVAL_EXPIRED, "nobody decided in time");
                ending::fail_run(draft, EventBody::TimedOut { failure })
            }
            Live::Ready { .. }
            | Live::Running(_)
            | Live::Retrying { .. }
            | Live::Unresolved { .. }
            | Live::Over { .. } => Err(Refusal::WrongWork { expected: "a step that waits" }),
        }
    }
}

fn passed(draft: &Draft<'_>, deadline: Timestamp) -> Result<(), Refusal> {
    if deadline <= draft.now() { Ok(()) } else { Err(Refusal::NotBefore { at: deadline }) }
}

fn end_wait(draft: &mut Draft<'_>, failure: Failure, on_timeout: OnTimeout) -> Result<Advanced, Refusal> {
    let body = EventBody::TimedOut { failure };
    match on_timeout {
        OnTimeout::Fail => ending::fail_run(draft, body),
        OnTimeout::Continue => {
            let output = json!({ "timed_out": true });
            let success = Success {
                fingerprint: Fingerprint::of(&output),
                output: Payload::Inline(output),
                attempt: None,
                receipt: None,
                acted: false,
                cost_microusd: 0,
            };
            ending::close_step(draft, success, body)
        }
    }
}
