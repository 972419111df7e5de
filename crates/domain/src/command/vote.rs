//! Vote: a user approves or rejects. One rejection decides the approval, and so does the required number of approvals.
//! Later votes are refused with the decision.

use serde_json::json;

use crate::approval::{Approval, ApprovalStatus, Channel, Subject, Vote, check_assurance, may_approve};
use crate::draft::Draft;
use crate::event::EventBody;
use crate::failure::{self, Failure};
use crate::id::PersonId;
use crate::machine::{RunTransition, StepTransition};
use crate::payload::{Fingerprint, Payload};
use crate::plan::OnReject;
use crate::record::{OperatorRequest, StepState};
use crate::refusal::{NotApprover, Refusal};
use crate::tenant::Tenant;

use super::Command;
use super::ending::{self, AfterStep, PerformedEffect, Success};

/// Records the vote of one user.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordVote {
    /// The approval in its current revision.
    pub approval: Approval,
    /// The user who votes.
    pub person: PersonId,
    /// Whether the user approves.
    pub approve: bool,
    /// The user's reason.
    pub reason: String,
    /// The channel that authenticated the user.
    pub through: Channel,
    /// The tenant's users and groups.
    pub tenant: Tenant,
}

/// The result of a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoteResult {
    /// The vote decided the approval.
    Decided(AfterStep),
    /// The vote is recorded; more approvals are needed.
    Counted {
        /// How many more.
        missing: usize,
    },
    /// The user voted the same before; nothing changed.
    Duplicate,
}

impl Command for RecordVote {
    type Output = VoteResult;

    fn decide(self, draft: &mut Draft<'_>) -> Result<VoteResult, Refusal> {
        if self.is_duplicate(draft) {
            return Ok(VoteResult::Duplicate);
        }
        let Approval { id, step, expires_at, .. } = &self.approval;
        if !self.approval.is_open() {
            return Err(Refusal::AlreadyDecided { step: step.clone(), decision: self.approval.outcome() });
        }
        draft.ensure_active()?;
        let is_waiting =
            matches!(&draft.record.step_state, StepState::WaitingApproval { approval, .. } if approval == id);
        if !is_waiting {
            return Err(Refusal::NoOpenApproval { step: step.clone() });
        }
        if *expires_at <= draft.now() {
            return Err(Refusal::ApprovalExpired { approval: id.clone(), at: *expires_at });
        }
        self.may_vote(draft, &self.person)?;
        check_assurance(&self.approval, &self.person, &self.through)?;
        self.count_vote(draft)
    }
}

impl RecordVote {
    /// The users who approved and may not vote any more.
    fn discounted_approvers(&self, draft: &Draft<'_>) -> Vec<PersonId> {
        let discounted = self.approval.votes.iter().filter(|vote| vote.approve && !self.counts(draft, vote));
        discounted.map(|vote| vote.person.clone()).collect()
    }

    fn counts(&self, draft: &Draft<'_>, vote: &Vote) -> bool {
        let accepted = self.approval.requirement.assurance.accepts(vote.assurance());
        accepted && self.may_vote(draft, &vote.person).is_ok() && vote.has_role(&self.tenant)
    }

    /// A user whose approval in Slack lost its role may approve again with another credential.
    fn is_duplicate(&self, draft: &Draft<'_>) -> bool {
        let last = self.approval.votes.iter().rfind(|vote| vote.person == self.person);
        let is_void = |vote: &Vote| self.approval.is_open() && vote.approve && !self.counts(draft, vote);
        last.is_some_and(|vote| vote.approve == self.approve && !is_void(vote))
    }

    /// Refuses a user who may not approve, and one who has shaped the run since the approval was requested.
    fn may_vote(&self, draft: &Draft<'_>, person: &PersonId) -> Result<(), Refusal> {
        may_approve(&self.approval, person, &self.tenant)?;
        match draft.record.all_participants(draft.plan.author.as_ref()).role_of(person) {
            Some(role) => Err(Refusal::NotApprover {
                approval: self.approval.id.clone(),
                person: person.clone(),
                why: NotApprover::Participant(role),
            }),
            None => Ok(()),
        }
    }

    fn count_vote(self, draft: &mut Draft<'_>) -> Result<VoteResult, Refusal> {
        let discounted = self.discounted_approvers(draft);
        let mut approval = self.approval;
        approval.votes.retain(|vote| !vote.approve || !discounted.contains(&vote.person));
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
        draft.publish_approval(approval.clone());
        let body = EventBody::ApprovalVoted {
            approval: approval.id.clone(),
            subject: approval.subject.hash(),
            vote: vote.clone(),
            status: approval.status,
            discounted,
        };
        match approval.status {
            ApprovalStatus::Approved => {
                apply_approval(draft, &approval, &vote, body).map(VoteResult::Decided)
            }
            ApprovalStatus::Rejected => {
                apply_rejection(draft, &approval, &vote, body).map(VoteResult::Decided)
            }
            ApprovalStatus::Requested | ApprovalStatus::Expired | ApprovalStatus::Canceled => {
                draft.record_event(body);
                Ok(VoteResult::Counted { missing: approval.missing() })
            }
        }
    }
}

fn apply_approval(
    draft: &mut Draft<'_>,
    approval: &Approval,
    vote: &Vote,
    body: EventBody,
) -> Result<AfterStep, Refusal> {
    match &approval.subject {
        Subject::Question { .. } => {
            // Without the reason: a step that reads it would let its author shape an action and then approve it.
            let output = json!({ "approved": true, "by": vote.person });
            ending::close_step(draft, gate_output(output), body)
        }
        Subject::Action { .. } => {
            let approved = Some(approval.id.clone());
            let (attempt, authorized) =
                (draft.record.step_state.attempt(), draft.record.step_state.open().cloned());
            let step_state = StepState::Ready { attempt, authorized, approved };
            draft.move_step(StepTransition::Reopen, step_state)?;
            continue_run(draft)?;
            draft.record_event(body);
            Ok(AfterStep::Ready)
        }
    }
}

/// The run continues, forwards or with its rollback.
fn continue_run(draft: &mut Draft<'_>) -> Result<(), Refusal> {
    draft.move_run(RunTransition::Continue)?;
    if draft.record.is_rolling_back() {
        draft.move_run(RunTransition::RollBack)?;
    }
    Ok(())
}

fn gate_output(output: serde_json::Value) -> Success {
    Success {
        fingerprint: Fingerprint::of(&output),
        output: Payload::Inline(output),
        attempt: None,
        receipt: None,
        effect: PerformedEffect::None,
        cost_microusd: 0,
        usage: None,
    }
}

fn apply_rejection(
    draft: &mut Draft<'_>,
    approval: &Approval,
    vote: &Vote,
    body: EventBody,
) -> Result<AfterStep, Refusal> {
    let failure =
        Failure::new(failure::APPROVAL_REJECTED, format!("rejected by {}: {}", vote.person, vote.reason));
    match approval.on_reject {
        OnReject::Fail => {
            // A rejected rollback pauses the run, and can be requested again.
            draft.record.rejected = draft.record.is_rolling_back().then(|| vote.rejection());
            ending::fail_step_with(draft, failure, body)
        }
        OnReject::Pause => pause_after_rejection(draft, vote, &failure, body),
    }
}

/// The step becomes ready again, and the run waits for an operator before it requests another approval.
fn pause_after_rejection(
    draft: &mut Draft<'_>,
    vote: &Vote,
    failure: &Failure,
    body: EventBody,
) -> Result<AfterStep, Refusal> {
    let (attempt, authorized) = (draft.record.step_state.attempt(), draft.record.step_state.open().cloned());
    draft.move_step(StepTransition::Reopen, StepState::Ready { attempt, authorized, approved: None })?;
    draft.record_event(body);
    draft.record.rejected = Some(vote.rejection());
    let request = OperatorRequest {
        by: draft.context.by.id.clone(),
        reason: format!("{}: {}", failure.code, failure.message),
        at: draft.context.now,
    };
    ending::pause_run(draft, request)
}
