//! Answer: a person says yes or no to a request for approval. Enough yeses, or one no, decide it; whoever
//! comes after that is shown the answer.

use serde_json::json;

use crate::approval::{Approval, ApprovalStatus, Channel, Subject, Vote};
use crate::draft::Draft;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::id::PersonId;
use crate::machine::{RunMove, StepMove};
use crate::payload::{Fingerprint, Payload};
use crate::plan::OnReject;
use crate::record::{Live, Request};
use crate::refusal::{NotApprover, Refusal};
use crate::tenant::Tenant;

use super::Command;
use super::ending::{self, Advanced, Success};

/// A person's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// To which request, as it stands.
    pub approval: Approval,
    /// Who answers.
    pub person: PersonId,
    /// Yes or no.
    pub approve: bool,
    /// In their words.
    pub reason: String,
    /// Through what, and how surely they are known.
    pub through: Channel,
    /// Whose people they are.
    pub tenant: Tenant,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// It decided the request.
    Decided(Advanced),
    /// It counts, and so many more people must say yes.
    Counted {
        /// How many.
        missing: usize,
    },
    /// The same person had said the same before; nothing changed.
    Duplicate,
}

impl Command for Answer {
    type Answer = Answered;

    fn decide(self, draft: &mut Draft<'_>) -> Result<Answered, Refusal> {
        if self.said_before() {
            return Ok(Answered::Duplicate);
        }
        let Approval { id, step, expires_at, .. } = &self.approval;
        if !self.approval.is_open() {
            return Err(Refusal::AlreadyDecided { step: step.clone(), decision: self.approval.outcome() });
        }
        draft.open()?;
        let waits = matches!(&draft.record.live, Live::WaitingApproval { approval, .. } if approval == id);
        if !waits {
            return Err(Refusal::NotAsked { step: step.clone() });
        }
        if *expires_at <= draft.now() {
            return Err(Refusal::Lapsed { approval: id.clone(), at: *expires_at });
        }
        may_answer(&self.approval, &self.person, &self.tenant)?;
        self.count(draft)
    }
}

/// Whether `person` may answer `approval`.
pub fn may_answer(approval: &Approval, person: &PersonId, tenant: &Tenant) -> Result<(), Refusal> {
    let why = match person {
        person if approval.requester.as_ref() == Some(person) => NotApprover::Requester,
        person if approval.author.as_ref() == Some(person) => NotApprover::Author,
        person if !tenant.knows(person) => NotApprover::Stranger,
        person if !tenant.belongs(person, &approval.demand.groups) => NotApprover::NotInGroup,
        _ => return Ok(()),
    };
    Err(Refusal::NotApprover { approval: approval.id.clone(), person: person.clone(), why })
}

impl Answer {
    fn said_before(&self) -> bool {
        let last = self.approval.votes.iter().rfind(|vote| vote.person == self.person);
        last.is_some_and(|vote| vote.approve == self.approve)
    }

    fn count(self, draft: &mut Draft<'_>) -> Result<Answered, Refusal> {
        let mut approval = self.approval;
        let reason = failure::bounded(&self.reason, failure::MESSAGE_CHARS_MAX);
        let vote = Vote {
            person: self.person,
            approve: self.approve,
            reason,
            at: draft.now(),
            through: self.through,
        };
        approval.votes.push(vote.clone());
        approval.status = match (vote.approve, approval.missing()) {
            (false, _) => ApprovalStatus::Rejected,
            (true, 0) => ApprovalStatus::Approved,
            (true, _) => ApprovalStatus::Requested,
        };
        draft.show_approval(approval.clone());
        let body = EventBody::ApprovalVoted {
            approval: approval.id.clone(),
            subject: approval.subject.hash(),
            vote: vote.clone(),
            status: approval.status,
        };
        match approval.status {
            ApprovalStatus::Approved => granted(draft, &approval, &vote, body).map(Answered::Decided),
            ApprovalStatus::Rejected => refused(draft, &approval, &vote, body).map(Answered::Decided),
            ApprovalStatus::Requested | ApprovalStatus::Expired | ApprovalStatus::Canceled => {
                draft.record_event(body);
                Ok(Answered::Counted { missing: approval.missing() })
            }
        }
    }
}

fn granted(
    draft: &mut Draft<'_>,
    approval: &Approval,
    vote: &Vote,
    body: EventBody,
) -> Result<Advanced, Refusal> {
    match &approval.subject {
        Subject::Question { .. } => {
            let output = json!({ "approved": true, "by": vote.person, "reason": vote.reason });
            ending::close_step(draft, said_yes(output), body)
        }
        Subject::Action { .. } => {
            let approved = Some(approval.id.clone());
            let (attempt, authorised) = (draft.record.live.attempt(), draft.record.live.open().cloned());
            let live = Live::Ready { attempt, authorised, approved };
            draft.move_step(StepMove::Reopen, live)?;
            go_on(draft)?;
            draft.record_event(body);
            Ok(Advanced::Ready)
        }
    }
}

/// The run is at work again, or takes back again.
fn go_on(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    draft.move_run(RunMove::Continue)?;
    if draft.record.is_undoing() {
        draft.move_run(RunMove::RollBack)?;
    }
    Ok(())
}

fn said_yes(output: serde_json::Value) -> Success {
    Success {
        fingerprint: Fingerprint::of(&output),
        output: Payload::Inline(output),
        attempt: None,
        receipt: None,
        acted: false,
        cost_microusd: 0,
        usage: None,
    }
}

fn refused(
    draft: &mut Draft<'_>,
    approval: &Approval,
    vote: &Vote,
    body: EventBody,
) -> Result<Advanced, Refusal> {
    let failure =
        Failure::new(failure::APPROVAL_REJECTED, format!("{} said no: {}", vote.person, vote.reason));
    match approval.on_reject {
        OnReject::Fail => ending::fail_with(draft, failure, body),
        OnReject::Pause => pause(draft, &failure, body),
    }
}

/// The question is open again, but the run waits for an operator before it is asked again.
fn pause(draft: &mut Draft<'_>, failure: &Failure, body: EventBody) -> Result<Advanced, Refusal> {
    let (attempt, authorised) = (draft.record.live.attempt(), draft.record.live.open().cloned());
    draft.move_step(StepMove::Reopen, Live::Ready { attempt, authorised, approved: None })?;
    draft.record_event(body);
    let request = Request {
        by: draft.stamp.by.id.clone(),
        reason: format!("{}: {}", failure.code, failure.message),
        at: draft.stamp.now,
    };
    ending::pause_run(draft, request)
}
