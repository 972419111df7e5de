//! Decide a gate: a person answers the question that a step asks. One answer counts; whoever comes second
//! is shown the first.

use serde_json::{Value, json};

use crate::draft::Draft;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::id::StepId;
use crate::machine::StepMove;
use crate::payload::{Fingerprint, Payload};
use crate::plan::OnReject;
use crate::record::{Live, Request, StepRecord};
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, Advanced, Success};

/// A person's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct DecideGate {
    /// To which step's question.
    pub step: StepId,
    /// Yes or no.
    pub approve: bool,
    /// In their words.
    pub reason: String,
    /// The step's record, if it has ended.
    pub ended: Option<StepRecord>,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decided {
    /// This answer counts.
    Now(Advanced),
    /// The same person had given the same answer before; nothing changed.
    Before,
}

impl Command for DecideGate {
    type Answer = Decided;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Decided, Refusal> {
        if let Some(ended) = &self.ended {
            return self.answered(ended, &draft.stamp.by.id);
        }
        draft.open()?;
        let asked = draft.step()?.id == self.step;
        match draft.record.live.clone() {
            Live::WaitingApproval { on_reject, .. } if asked => {
                self.answer(draft, on_reject).map(Decided::Now)
            }
            _ => Err(Refusal::NotAsked { step: self.step }),
        }
    }
}

impl DecideGate {
    fn answered(&self, ended: &StepRecord, by: &str) -> Result<Decided, Refusal> {
        let first = match &ended.output {
            Some(Payload::Inline(output)) => output.clone(),
            Some(Payload::Blob(_)) | None => Value::Null,
        };
        if self.approve && first["approved"] == true && first["by"] == by {
            return Ok(Decided::Before);
        }
        let decision = match (first["approved"].as_bool(), first["by"].as_str()) {
            (Some(true), Some(by)) => format!("approved by {by}"),
            _ => "rejected or expired; the run's events say by whom and when".to_owned(),
        };
        Err(Refusal::AlreadyDecided { step: self.step.clone(), decision })
    }

    fn answer(self, draft: &mut Draft<'_>, on_reject: OnReject) -> Result<Advanced, Refusal> {
        let body = EventBody::ApprovalDecided { approved: self.approve, reason: self.reason.clone() };
        match (self.approve, on_reject) {
            (true, _) => {
                let output = json!({ "approved": true, "by": draft.stamp.by.id, "reason": self.reason });
                ending::close_step(draft, said_yes(output), body)
            }
            (false, OnReject::Fail) => ending::fail_run(draft, body),
            (false, OnReject::Pause) => pause(draft, self.reason, body),
        }
    }
}

fn said_yes(output: Value) -> Success {
    Success {
        fingerprint: Fingerprint::of(&output),
        output: Payload::Inline(output),
        attempt: None,
        receipt: None,
        acted: false,
        cost_microusd: 0,
    }
}

/// The question is open again, but the run waits for an operator before it is asked again.
fn pause(draft: &mut Draft<'_>, reason: String, body: EventBody) -> Result<Advanced, Refusal> {
    draft.move_step(StepMove::Reopen, Live::FRESH)?;
    draft.record_event(body);
    let failure = Failure::new(failure::APPROVAL_REJECTED, reason);
    let request = Request {
        by: draft.stamp.by.id.clone(),
        reason: format!("{}: {}", failure.code, failure.message),
        at: draft.stamp.now,
    };
    ending::pause_run(draft, request)
}
