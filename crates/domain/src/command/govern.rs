//! Govern: nothing outside changes without a verdict, and where the verdict asks for people, without their
//! yes to exactly this action under exactly this policy.

use serde_json::Value;

use crate::approval::{Approval, ApprovalStatus, Consumed, Subject};
use crate::draft::Draft;
use crate::effect::Action;
use crate::event::{EventBody, ReceiptRef};
use crate::failure::{self, Failure};
use crate::id::ApprovalId;
use crate::initiator::{Cause, Initiator};
use crate::machine::{RunMove, StepMove};
use crate::plan::{OnReject, Patience};
use crate::record::{Intent, Live};
use crate::refusal::Refusal;
use crate::verdict::{Demand, Ruling, Verdict};

use super::claim::{Claim, Claimed, PriorAttempt};
use super::ending;

/// What was found out about an effect before anybody may cause it.
#[derive(Debug, Clone, PartialEq)]
pub struct Governed {
    /// What policy says about the action.
    pub verdict: Verdict,
    /// What stands outside, as far as the tool had to look before it could propose.
    pub found: Option<Value>,
}

/// Whether an effect may be caused.
pub(super) enum Authority {
    /// Yes, under this verdict and, where it asked for one, this approval.
    Given(Given),
    /// Not now, or not ever; the step has moved accordingly.
    Withheld(Claimed),
}

/// What allows an effect.
pub(super) struct Given {
    pub(super) governed: Governed,
    pub(super) approved: Option<ApprovalId>,
}

/// Whether the effect of `claim` may be caused now.
pub(super) fn authorise(
    draft: &mut Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
) -> Result<Authority, Refusal> {
    let Some(governed) = claim.governed.clone() else {
        return Err(Refusal::Unjudged { action: claim.action.hash() });
    };
    // What a step that means something else by now has let go of is no longer its concern.
    let open = before.open.clone().filter(|open| open.key == claim.action.key);
    let given = |approved| Ok(Authority::Given(Given { governed: governed.clone(), approved }));
    match &governed.verdict.ruling {
        Ruling::Deny if open.is_some() => {
            let failure = Failure::new(failure::POLICY_DENIED, said(&governed.verdict));
            ending::pause_unresolved(draft, failure).map(Claimed::Settled).map(Authority::Withheld)
        }
        Ruling::Deny => deny(draft, &claim.action, governed.verdict).map(Authority::Withheld),
        Ruling::Allow => {
            withdraw_carried(draft, before, "policy no longer asks for it")?;
            given(None)
        }
        Ruling::NeedsApproval(demand) => {
            if let Some(approved) = covering(draft, claim, before, demand)? {
                consume(draft, &approved)?;
                return given(Some(approved));
            }
            withdraw_carried(
                draft,
                before,
                "it no longer fits: the action, the policy or the time has changed",
            )?;
            let wish = about(draft, &claim.action, &governed.verdict, demand)?;
            ask(draft, wish, (before.attempt, open))?;
            Ok(Authority::Withheld(Claimed::Asked))
        }
    }
}

fn about(draft: &Draft<'_>, action: &Action, verdict: &Verdict, demand: &Demand) -> Result<Wish, Refusal> {
    Ok(Wish {
        subject: Subject::Action { action: Box::new(action.clone()), verdict: verdict.clone() },
        demand: demand.clone(),
        on_reject: draft.step()?.on_reject,
        patience: None,
    })
}

/// The approval that the step carries, if it is for this very action, under this very policy, and still
/// worth something.
fn covering(
    draft: &Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
    demand: &Demand,
) -> Result<Option<ApprovalId>, Refusal> {
    let Some(id) = &before.approved else { return Ok(None) };
    let approval = draft.asked(id)?;
    let policy = claim.governed.as_ref().map(|governed| governed.verdict.policy);
    let fits = approval.subject.hash() == claim.action.hash()
        && approval.subject.policy() == policy
        && approval.expires_at > draft.now()
        && approval.status == ApprovalStatus::Approved
        && approval.demand.covers(demand);
    Ok(fits.then(|| id.clone()))
}

fn consume(draft: &mut Draft<'_>, id: &ApprovalId) -> Result<(), Refusal> {
    let mut approval = draft.asked(id)?;
    // The attempt that this commit begins holds the next fence.
    approval.consumed = Some(Consumed { fence: draft.record.fence.next(), at: draft.now() });
    draft.record.phase = Some(draft.step()?.phase);
    draft.keep_approval(approval);
    Ok(())
}

/// Why an effect that was intended may not be attempted again, if it may not: policy says no by now, or what
/// people said has lapsed.
pub(super) fn no_longer_allowed(
    draft: &Draft<'_>,
    claim: &Claim,
    before: &PriorAttempt,
) -> Result<Option<&'static str>, Refusal> {
    let denied = claim.governed.as_ref().is_some_and(|governed| governed.verdict.ruling == Ruling::Deny);
    if denied {
        return Ok(Some("it was interrupted, and policy would not allow it any more"));
    }
    let Some(id) = &before.approved else { return Ok(None) };
    let lapsed = draft.asked(id)?.expires_at <= draft.now();
    Ok(lapsed.then_some("it was interrupted, and its approval has lapsed since"))
}

/// An approval that the step carries and does not use any more is worth nothing.
fn withdraw_carried(draft: &mut Draft<'_>, before: &PriorAttempt, reason: &str) -> Result<(), Refusal> {
    match &before.approved {
        Some(approved) => withdraw(draft, approved, reason),
        None => Ok(()),
    }
}

/// Takes a question back.
pub(super) fn withdraw(draft: &mut Draft<'_>, id: &ApprovalId, reason: &str) -> Result<(), Refusal> {
    let mut approval = draft.asked(id)?;
    let counts = matches!(approval.status, ApprovalStatus::Requested | ApprovalStatus::Approved);
    if counts && approval.consumed.is_none() {
        approval.status = ApprovalStatus::Canceled;
        draft.show_approval(approval);
        let reason = reason.to_owned();
        draft.record_event(EventBody::ApprovalWithdrawn { approval: id.clone(), reason });
    }
    Ok(())
}

/// The current step asks nobody any more; what it waits for, or carries, is withdrawn.
pub(super) fn withdraw_live(draft: &mut Draft<'_>, reason: &str) -> Result<(), Refusal> {
    // What a holder has is used, not open.
    if matches!(draft.record.live, Live::Running(_)) {
        return Ok(());
    }
    let Some(id) = draft.record.live.approval().cloned() else { return Ok(()) };
    withdraw(draft, &id, reason)
}

fn said(verdict: &Verdict) -> String {
    verdict.because.iter().map(|reason| reason.says.as_str()).collect::<Vec<_>>().join("; ")
}

fn deny(draft: &mut Draft<'_>, action: &Action, verdict: Verdict) -> Result<Claimed, Refusal> {
    let failure = Failure::new(failure::POLICY_DENIED, said(&verdict));
    // A worker asked, but it is policy that ends the step.
    let worker = std::mem::take(&mut draft.stamp.by.id);
    draft.stamp.by = Initiator::new(Cause::Policy, verdict.policy.to_string()).with("asked_by", worker);
    let body = EventBody::ActionDenied {
        receipt: ReceiptRef { key: action.key.clone(), action: action.hash() },
        tool: action.tool.clone(),
        target: action.target.clone(),
        verdict,
    };
    ending::fail_with(draft, failure, body).map(Claimed::Settled)
}

/// What people are to be asked.
pub(super) struct Wish {
    pub(super) subject: Subject,
    pub(super) demand: Demand,
    pub(super) on_reject: OnReject,
    /// How long they have; what the workflow says, if absent.
    pub(super) patience: Option<Patience>,
}

/// The current step asks people.
pub(super) fn ask(
    draft: &mut Draft<'_>,
    wish: Wish,
    (attempt, open): (u32, Option<Intent>),
) -> Result<(), Refusal> {
    let approval = request(draft, wish)?;
    draft.record.approvals = draft.record.approvals.saturating_add(1);
    let live = Live::WaitingApproval {
        approval: approval.id.clone(),
        attempt,
        open,
        nudge_at: approval.nudge_at(),
        deadline: approval.expires_at,
    };
    draft.move_step(StepMove::OpenGate, live)?;
    draft.move_run(RunMove::OpenGate)?;
    let verdict = match &approval.subject {
        Subject::Action { verdict, .. } => Some(verdict.clone()),
        Subject::Question { .. } => None,
    };
    draft.record_event(EventBody::ApprovalRequested {
        approval: approval.id.clone(),
        subject: approval.subject.hash(),
        demand: approval.demand.clone(),
        verdict,
        excluded: approval.excluded(),
        sla_at: approval.sla_at,
        expires_at: approval.expires_at,
    });
    draft.show_approval(approval);
    Ok(())
}

fn request(draft: &Draft<'_>, wish: Wish) -> Result<Approval, Refusal> {
    let Patience { sla, expires_after } = wish.patience.unwrap_or(draft.plan.patience);
    let (record, now) = (&draft.record, draft.now());
    Ok(Approval {
        id: ApprovalId::derive(&record.key, record.approvals),
        run: record.key.clone(),
        workflow: record.workflow.clone(),
        environment: draft.plan.environment,
        step: draft.step()?.id.clone(),
        seq: record.at,
        undo: record.is_undoing(),
        subject: wish.subject,
        demand: wish.demand,
        requester: record.trigger.requester.clone(),
        author: draft.plan.author.clone(),
        on_reject: wish.on_reject,
        status: ApprovalStatus::Requested,
        votes: Vec::new(),
        asked_at: now,
        sla_at: now + sla,
        expires_at: now + expires_after,
        reminders: 0,
        escalated_at: None,
        consumed: None,
        revision: 0,
    })
}
