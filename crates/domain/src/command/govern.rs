//! Authorization. A read must be allowed by policy. An effect must be allowed by policy, or approvers approve exactly
//! this action under exactly this policy.

use serde_json::Value;

use crate::approval::{Approval, ApprovalStatus, ApprovalUse, Subject, action_subject};
use crate::draft::Draft;
use crate::effect::Action;
use crate::event::{EventBody, ReceiptRef};
use crate::failure::{self, Failure};
use crate::id::{ApprovalId, PersonId};
use crate::initiator::{Cause, Initiator};
use crate::machine::{RunTransition, StepTransition};
use crate::plan::{ApprovalTiming, Call, OnReject, Undo};
use crate::receipt::ReceiptState;
use crate::record::{Intent, StepState};
use crate::refusal::Refusal;
use crate::time::Timestamp;
use crate::validation;
use crate::verdict::{ApprovalRequirement, Ruling, Verdict};

use super::claim::{Claim, ClaimResult, PriorAttempt};
use super::ending;

/// The policy evaluation of a proposed effect.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyEvaluation {
    /// The verdict on the action.
    pub verdict: Verdict,
    /// The state of the external system that the tool observed before it proposed the action.
    pub observed: Option<Value>,
}

/// Whether an effect may be performed.
pub(super) enum Authority {
    /// It may.
    Granted(Authorization),
    /// It may not now, or never; the step has moved accordingly.
    Withheld(ClaimResult),
}

/// The verdict and the approval that allow an effect.
pub(super) struct Authorization {
    pub(super) assessment: PolicyEvaluation,
    /// Present if the verdict requires an approval.
    pub(super) approved: Option<ApprovalId>,
}

/// Decides whether the effect of `claim` may be performed now.
pub(super) fn authorize(
    draft: &mut Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
) -> Result<Authority, Refusal> {
    let Some(assessment) = claim.assessment.clone() else {
        return Err(Refusal::NoVerdict { action: claim.action.hash() });
    };
    // An open intent under another key belongs to an effect that the step no longer proposes.
    let open = before.open.clone().filter(|open| open.key == claim.action.key);
    let granted =
        |approved| Ok(Authority::Granted(Authorization { assessment: assessment.clone(), approved }));
    match &assessment.verdict.ruling {
        Ruling::Deny if open.is_some() => {
            let failure = Failure::new(failure::POLICY_DENIED, reason_text(&assessment.verdict));
            ending::pause_unresolved(draft, failure).map(ClaimResult::Resolved).map(Authority::Withheld)
        }
        Ruling::Deny => deny(draft, &claim.action, assessment.verdict).map(Authority::Withheld),
        Ruling::Allow => {
            withdraw_carried(draft, before, "policy no longer requires it")?;
            granted(None)
        }
        Ruling::NeedsApproval(requirement) => {
            if let Some(approved) = valid_approval(draft, claim, before, requirement)? {
                consume(draft, &approved)?;
                return granted(Some(approved));
            }
            withdraw_carried(
                draft,
                before,
                "it no longer applies: the action or the policy changed, or the approval expired",
            )?;
            let spec = action_approval(draft, claim, &assessment.verdict, requirement)?;
            request_approval(draft, spec, (before.attempt, open))?;
            Ok(Authority::Withheld(ClaimResult::AwaitingApproval))
        }
    }
}

/// Ends the step if policy does not allow the read of `claim`. A computation in the process needs no verdict.
pub(super) fn deny_read(draft: &mut Draft<'_>, claim: &Claim) -> Result<Option<ClaimResult>, Refusal> {
    let action = &claim.action;
    if !action.class.calls_out() {
        return Ok(None);
    }
    let assessment = claim.assessment.as_ref().ok_or_else(|| Refusal::NoVerdict { action: action.hash() })?;
    match validation::without_approval(assessment.verdict.clone()) {
        Verdict { ruling: Ruling::Allow, .. } => Ok(None),
        denied => deny(draft, action, denied).map(Some),
    }
}

fn action_approval(
    draft: &Draft<'_>,
    claim: &Claim,
    verdict: &Verdict,
    requirement: &ApprovalRequirement,
) -> Result<ApprovalSpec, Refusal> {
    let rollback = declared_rollback(draft)?.cloned();
    let action = Box::new(claim.action.clone());
    let attempt = claim.receipt.as_ref().filter(|receipt| receipt.state == ReceiptState::Intent);
    Ok(ApprovalSpec {
        subject: Subject::Action { action, verdict: verdict.clone(), rollback },
        requirement: requirement.clone(),
        on_reject: draft.step()?.on_reject,
        timing: None,
        attempted_at: attempt.map(|receipt| receipt.intended_at),
    })
}

/// The rollback that the workflow declares for the current step; `None` while the step itself is rolled back.
fn declared_rollback<'p>(draft: &Draft<'p>) -> Result<Option<&'p Call>, Refusal> {
    match &draft.step()?.rollback {
        Some(Undo::Call(call)) if !draft.record.is_rolling_back() => Ok(Some(call)),
        Some(_) | None => Ok(None),
    }
}

/// The step's approval, if it is valid for this action under this policy.
fn valid_approval(
    draft: &Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
    requirement: &ApprovalRequirement,
) -> Result<Option<ApprovalId>, Refusal> {
    let Some(id) = &before.approved else { return Ok(None) };
    let approval = draft.approval(id)?;
    let policy = claim.assessment.as_ref().map(|assessment| assessment.verdict.policy);
    let subject = action_subject(claim.action.hash(), declared_rollback(draft)?.map(Call::hash));
    let shaped = draft.record.all_participants(draft.plan.author.as_ref());
    let may_approve =
        |person: &&PersonId| shaped.role_of(person).is_none() && !claim.departed.contains(*person);
    let approvers = approval.approvers().filter(may_approve);
    let valid = approval.subject.hash() == subject
        && approvers.count() >= requirement.people.count()
        && approval.subject.policy() == policy
        && approval.expires_at > draft.now()
        && approval.status == ApprovalStatus::Approved
        && approval.requirement.covers(requirement);
    Ok(valid.then(|| id.clone()))
}

fn consume(draft: &mut Draft<'_>, id: &ApprovalId) -> Result<(), Refusal> {
    let mut approval = draft.approval(id)?;
    // The attempt that this commit starts gets the next fence.
    approval.consumed = Some(ApprovalUse { fence: draft.record.fence.next(), at: draft.now() });
    draft.record.phase = Some(draft.step()?.phase);
    draft.save_approval(approval);
    Ok(())
}

/// Why an interrupted effect may not be attempted again: policy now denies it or requires more approvers than it has,
/// or its approval has expired or lost an approver. `None` if it may.
pub(super) fn repeat_denial(
    draft: &Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
) -> Result<Option<&'static str>, Refusal> {
    const NOT_APPROVED: &str =
        "the action was interrupted, and policy now requires an approval that it does not have";
    let required = match claim.assessment.as_ref().map(|assessment| &assessment.verdict.ruling) {
        Some(Ruling::Deny) => return Ok(Some("the action was interrupted, and policy now denies it")),
        Some(Ruling::NeedsApproval(requirement)) => Some(requirement),
        Some(Ruling::Allow) | None => None,
    };
    let Some(id) = &before.approved else { return Ok(required.map(|_| NOT_APPROVED)) };
    let approval = draft.approval(id)?;
    if required.is_some_and(|required| !approval.requirement.covers_approvers(required)) {
        return Ok(Some(NOT_APPROVED));
    }
    if approval.expires_at <= draft.now() {
        return Ok(Some("the action was interrupted, and its approval has expired since"));
    }
    let approvers = approval.approvers().filter(|person| !claim.departed.contains(person)).count();
    let lost = approvers < approval.requirement.people.count();
    Ok(lost.then_some(
        "the action was interrupted, and an approver has left the directory or the group, or lost the role",
    ))
}

/// Withdraws the approval that the step carries and no longer uses.
fn withdraw_carried(draft: &mut Draft<'_>, before: &PriorAttempt, reason: &str) -> Result<(), Refusal> {
    match &before.approved {
        Some(approved) => withdraw(draft, approved, reason),
        None => Ok(()),
    }
}

/// Withdraws an approval, unless it is decided against, expired or used.
pub(super) fn withdraw(draft: &mut Draft<'_>, id: &ApprovalId, reason: &str) -> Result<(), Refusal> {
    let mut approval = draft.approval(id)?;
    let live = matches!(approval.status, ApprovalStatus::Requested | ApprovalStatus::Approved);
    if live && approval.consumed.is_none() {
        approval.status = ApprovalStatus::Canceled;
        draft.publish_approval(approval);
        let reason = reason.to_owned();
        draft.record_event(EventBody::ApprovalWithdrawn { approval: id.clone(), reason });
    }
    Ok(())
}

/// Withdraws the approval that the current step waits for or carries.
pub(super) fn withdraw_live(draft: &mut Draft<'_>, reason: &str) -> Result<(), Refusal> {
    // The approval of a leased step is consumed.
    if matches!(draft.record.step_state, StepState::Running(_)) {
        return Ok(());
    }
    let Some(id) = draft.record.step_state.approval().cloned() else { return Ok(()) };
    withdraw(draft, &id, reason)
}

fn reason_text(verdict: &Verdict) -> String {
    verdict.reasons.iter().map(|reason| reason.message.as_str()).collect::<Vec<_>>().join("; ")
}

fn deny(draft: &mut Draft<'_>, action: &Action, verdict: Verdict) -> Result<ClaimResult, Refusal> {
    let failure = Failure::new(failure::POLICY_DENIED, reason_text(&verdict));
    // The event names policy as the cause, and the worker as the caller.
    let worker = std::mem::take(&mut draft.context.by.id);
    draft.context.by = Initiator::new(Cause::Policy, verdict.policy.to_string()).with("asked_by", worker);
    let body = EventBody::ActionDenied {
        receipt: ReceiptRef { key: action.key.clone(), action: action.hash() },
        tool: action.tool.clone(),
        target: action.target.clone(),
        verdict,
    };
    ending::fail_step_with(draft, failure, body).map(ClaimResult::Resolved)
}

/// An approval to request.
pub(super) struct ApprovalSpec {
    pub(super) subject: Subject,
    pub(super) requirement: ApprovalRequirement,
    pub(super) on_reject: OnReject,
    /// Defaults to the timing of the workflow.
    pub(super) timing: Option<ApprovalTiming>,
    /// When the action was first attempted, if its outcome is unknown.
    pub(super) attempted_at: Option<Timestamp>,
}

/// Requests an approval for the current step, which then waits for it.
pub(super) fn request_approval(
    draft: &mut Draft<'_>,
    spec: ApprovalSpec,
    (attempt, open): (u32, Option<Intent>),
) -> Result<(), Refusal> {
    let approval = new_approval(draft, spec)?;
    draft.record.approvals = draft.record.approvals.saturating_add(1);
    let step_state = StepState::WaitingApproval {
        approval: approval.id.clone(),
        attempt,
        open,
        next_reminder_at: approval.next_reminder_at(),
        deadline: approval.expires_at,
    };
    draft.move_step(StepTransition::OpenGate, step_state)?;
    draft.move_run(RunTransition::OpenGate)?;
    let verdict = match &approval.subject {
        Subject::Action { verdict, .. } => Some(verdict.clone()),
        Subject::Question { .. } => None,
    };
    draft.record_event(EventBody::ApprovalRequested {
        approval: approval.id.clone(),
        subject: approval.subject.hash(),
        requirement: approval.requirement.clone(),
        verdict,
        excluded: approval.excluded.clone(),
        sla_at: approval.sla_at,
        expires_at: approval.expires_at,
    });
    draft.publish_approval(approval);
    Ok(())
}

fn new_approval(draft: &Draft<'_>, spec: ApprovalSpec) -> Result<Approval, Refusal> {
    let ApprovalTiming { sla, expires_after } = spec.timing.unwrap_or(draft.plan.approval_timing);
    let (record, now) = (&draft.record, draft.now());
    let workflow_environment = draft.plan.environment;
    let environment = match &spec.subject {
        Subject::Action { action, .. } => action.environment(workflow_environment),
        Subject::Question { .. } => workflow_environment,
    };
    // A workflow cannot relax the SLA of a stricter environment.
    let sla = if environment > workflow_environment {
        sla.min(ApprovalTiming::default_in(environment).sla)
    } else {
        sla
    };
    Ok(Approval {
        id: ApprovalId::derive(&record.key, record.approvals),
        run: record.key.clone(),
        workflow: record.workflow.clone(),
        environment,
        step: draft.step()?.id.clone(),
        seq: record.at,
        rollback: record.is_rolling_back(),
        subject: spec.subject,
        requirement: spec.requirement,
        excluded: record.all_participants(draft.plan.author.as_ref()),
        attempted_at: spec.attempted_at,
        rejected: record.rejected.clone(),
        on_reject: spec.on_reject,
        status: ApprovalStatus::Requested,
        votes: Vec::new(),
        requested_at: now,
        sla_at: now + sla,
        expires_at: now + expires_after,
        reminders: 0,
        escalated_at: None,
        consumed: None,
        revision: 0,
    })
}
