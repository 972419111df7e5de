//! Compares approval requests with the chain.
//!
//! The events of each request are replayed, and the result must equal the record in the bundle. This includes who may
//! vote, how many approvers are required, and the deadlines.

use std::collections::{BTreeMap, BTreeSet};

use domain::approval::{ApprovalUse, action_subject};
use domain::{
    ApprovalId, ApprovalRequirement, ApprovalStatus, Digest, Event, EventBody, Participants, Timestamp,
    Verdict, Vote,
};

use crate::bundle::{ApprovalSummary, EvidenceBundle, SubjectSummary};
use crate::error::VerifyError;

/// A request, replayed from the chain.
pub(super) struct Request<'a> {
    /// The event that opened the request.
    opened: &'a Event,
    subject: Digest,
    /// The digest of the declared rollback that the subject includes.
    rollback: Option<Digest>,
    requirement: &'a ApprovalRequirement,
    verdict: Option<&'a Verdict>,
    excluded: &'a Participants,
    sla_at: Timestamp,
    expires_at: Timestamp,
    votes: Vec<&'a Vote>,
    status: ApprovalStatus,
    reminders: u32,
    escalated_at: Option<Timestamp>,
    consumed: Option<ApprovalUse>,
    /// The last intent that used the approval.
    used_for: Option<&'a EventBody>,
}

pub(super) type Requests<'a> = BTreeMap<&'a ApprovalId, Request<'a>>;

/// The requests in the chain, if the records in the bundle equal them.
pub(super) fn check<'a>(
    bundle: &'a EvidenceBundle,
    events: &'a [Event],
) -> Result<Requests<'a>, VerifyError> {
    super::check_ascending("approvals", bundle.approvals.iter().map(|approval| &approval.id))?;
    let mut requests = Requests::new();
    let mut participants = Participants::default();
    for event in events {
        participants.add_from(event);
        if matches!(event.body, EventBody::RunAdmitted { .. }) {
            participants = participants.with_author(bundle.run.author.as_ref());
        }
        apply(&mut requests, event, (bundle, &participants))?;
    }
    for approval in &bundle.approvals {
        let never_requested = || VerifyError::NeverAsked { approval: approval.id.clone() };
        check_record(approval, requests.get(&approval.id).ok_or_else(never_requested)?, bundle)?;
    }
    let known = |id: &ApprovalId| bundle.approvals.binary_search_by(|approval| approval.id.cmp(id)).is_ok();
    match requests.iter().find(|(id, _)| !known(id)) {
        Some((id, request)) => {
            Err(VerifyError::ApprovalMissing { n: request.opened.n, approval: (*id).clone() })
        }
        None => Ok(requests),
    }
}

fn apply<'a>(
    requests: &mut Requests<'a>,
    event: &'a Event,
    (bundle, participants): (&EvidenceBundle, &Participants),
) -> Result<(), VerifyError> {
    match &event.body {
        EventBody::ApprovalRequested { approval, excluded, .. } => {
            // Every user who shaped the run so far, and no other.
            if excluded != participants {
                let what = "list of excluded users";
                return Err(VerifyError::Approval { what, approval: approval.clone() });
            }
            open_request(requests, approval, event, bundle)
        }
        EventBody::ApprovalVoted { approval, .. } => {
            pending_request(requests, approval, event)?.count_vote(event)
        }
        EventBody::ApprovalReminded { approval } => {
            pending_request(requests, approval, event)?.reminders += 1;
            Ok(())
        }
        EventBody::ApprovalEscalated { approval } => {
            pending_request(requests, approval, event)?.escalated_at = Some(event.at);
            Ok(())
        }
        EventBody::ApprovalExpired { approval, .. } => {
            pending_request(requests, approval, event)?.status = ApprovalStatus::Expired;
            Ok(())
        }
        EventBody::ApprovalWithdrawn { approval, .. } => withdraw(requests, approval, event),
        EventBody::EffectIntended { receipt, verdict, approval, fence, .. } => {
            let effect = (verdict, receipt.action, participants);
            let Some(request) = required_approval(requests, event, approval.as_ref(), effect)? else {
                return Ok(());
            };
            request.consumed = Some(ApprovalUse { fence: *fence, at: event.at });
            request.used_for = Some(&event.body);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn open_request<'a>(
    requests: &mut Requests<'a>,
    id: &'a ApprovalId,
    event: &'a Event,
    bundle: &EvidenceBundle,
) -> Result<(), VerifyError> {
    let impossible = || VerifyError::ApprovalTransition { n: event.n, approval: id.clone() };
    let number = u32::try_from(requests.len()).unwrap_or(u32::MAX);
    let EventBody::ApprovalRequested { subject, requirement, verdict, excluded, sla_at, expires_at, .. } =
        &event.body
    else {
        return Err(impossible());
    };
    // The id is derived from the run and the number of the request, so that it cannot come from another run.
    if *id != ApprovalId::derive(&bundle.run.key(), number) {
        return Err(impossible());
    }
    let summary = bundle.approvals.iter().find(|approval| approval.id == *id);
    let rollback = summary.and_then(|summary| match summary.subject {
        SubjectSummary::Action { rollback, .. } => rollback,
        SubjectSummary::Question => None,
    });
    let request = Request {
        opened: event,
        subject: *subject,
        rollback,
        requirement,
        verdict: verdict.as_ref(),
        excluded,
        sla_at: *sla_at,
        expires_at: *expires_at,
        votes: Vec::new(),
        status: ApprovalStatus::Requested,
        reminders: 0,
        escalated_at: None,
        consumed: None,
        used_for: None,
    };
    requests.insert(id, request);
    Ok(())
}

/// The request `id`, if it still accepts votes.
fn pending_request<'r, 'a>(
    requests: &'r mut Requests<'a>,
    id: &ApprovalId,
    event: &Event,
) -> Result<&'r mut Request<'a>, VerifyError> {
    let request = requests.get_mut(id).filter(|request| request.status == ApprovalStatus::Requested);
    request.ok_or_else(|| VerifyError::ApprovalTransition { n: event.n, approval: id.clone() })
}

fn withdraw(requests: &mut Requests<'_>, id: &ApprovalId, event: &Event) -> Result<(), VerifyError> {
    let unused = |request: &&mut Request<'_>| {
        let live = matches!(request.status, ApprovalStatus::Requested | ApprovalStatus::Approved);
        live && request.consumed.is_none()
    };
    let impossible = || VerifyError::ApprovalTransition { n: event.n, approval: id.clone() };
    requests.get_mut(id).filter(unused).ok_or_else(impossible)?.status = ApprovalStatus::Canceled;
    Ok(())
}

impl<'a> Request<'a> {
    /// Counts a vote and compares the resulting status with the event.
    fn count_vote(&mut self, event: &'a Event) -> Result<(), VerifyError> {
        let EventBody::ApprovalVoted { approval: id, subject, vote, status, discounted } = &event.body else {
            return Ok(());
        };
        if self.excluded.role_of(&vote.person).is_some() {
            return Err(VerifyError::Excluded { approval: id.clone(), person: vote.person.clone() });
        }
        if !self.requirement.assurance.accepts(vote.assurance()) {
            return Err(VerifyError::Assurance { approval: id.clone(), person: vote.person.clone() });
        }
        self.votes.retain(|earlier| !(earlier.approve && discounted.contains(&earlier.person)));
        self.votes.push(vote);
        self.status = match (vote.approve, self.approvers() >= self.requirement.people.count()) {
            (false, _) => ApprovalStatus::Rejected,
            (true, true) => ApprovalStatus::Approved,
            (true, false) => ApprovalStatus::Requested,
        };
        let fits = *subject == self.subject
            && *status == self.status
            && vote.at == event.at
            && vote.at < self.expires_at
            && (event.seq, event.rollback) == (self.opened.seq, self.opened.rollback);
        if fits { Ok(()) } else { Err(VerifyError::ApprovalTransition { n: event.n, approval: id.clone() }) }
    }

    /// The number of distinct approvers.
    fn approvers(&self) -> usize {
        self.approvers_except(&Participants::default())
    }

    /// The number of distinct approvers who did not shape the action.
    fn approvers_except(&self, participants: &Participants) -> usize {
        let approvers = self.votes.iter().filter(|vote| vote.approve).map(|vote| &vote.person);
        approvers.filter(|person| participants.role_of(person).is_none()).collect::<BTreeSet<_>>().len()
    }

    /// Why this request does not cover an effect, if it does not.
    fn coverage_failure(
        &self,
        event: &Event,
        requirement: &ApprovalRequirement,
        (verdict, action, participants): (&Verdict, Digest, &Participants),
    ) -> Option<&'static str> {
        let approvers = self.approvers_except(participants);
        let policy = self.verdict.map(|verdict| verdict.policy);
        let conditions = [
            ("it is not approved", self.status == ApprovalStatus::Approved),
            ("it is for another action", self.subject == action_subject(action, self.rollback)),
            (
                "it is for another step",
                (self.opened.seq, self.opened.rollback) == (event.seq, event.rollback),
            ),
            ("it was given under another policy", policy == Some(verdict.policy)),
            ("it required fewer approvers than the verdict", self.requirement.covers(requirement)),
            ("too few users approved", approvers >= requirement.people.count()),
            ("it had expired", event.at < self.expires_at),
        ];
        conditions.into_iter().find(|(_, holds)| !holds).map(|(why, _)| why)
    }
}

/// The approval for the effect that `event` intends, if its verdict requires one. Only earlier events count.
fn required_approval<'r, 'a>(
    requests: &'r mut Requests<'a>,
    event: &Event,
    approval: Option<&ApprovalId>,
    effect: (&Verdict, Digest, &Participants),
) -> Result<Option<&'r mut Request<'a>>, VerifyError> {
    use domain::Ruling;
    let n = event.n;
    match (&effect.0.ruling, approval) {
        (Ruling::Deny, _) => Err(VerifyError::Denied { n }),
        (Ruling::Allow, None) => Ok(None),
        (Ruling::Allow, Some(_)) => Err(VerifyError::Unasked { n }),
        (Ruling::NeedsApproval(_), None) => Err(VerifyError::Unapproved { n }),
        (Ruling::NeedsApproval(requirement), Some(id)) => {
            let missing = || VerifyError::ApprovalMissing { n, approval: id.clone() };
            let request = requests.get_mut(id).ok_or_else(missing)?;
            match request.coverage_failure(event, requirement, effect) {
                Some(why) => Err(VerifyError::NotCovered { n, approval: id.clone(), why }),
                None => Ok(Some(request)),
            }
        }
    }
}

fn check_record(
    approval: &ApprovalSummary,
    request: &Request<'_>,
    bundle: &EvidenceBundle,
) -> Result<(), VerifyError> {
    let verdict = match &approval.subject {
        SubjectSummary::Question => None,
        SubjectSummary::Action { verdict, policy, .. } => Some((*verdict, *policy)),
    };
    let step = bundle.step(approval.seq).map(|step| &step.id);
    let conditions = [
        ("step", step == Some(&approval.step) && approval.seq == request.opened.seq),
        ("direction", approval.rollback == request.opened.rollback),
        ("subject", approval.subject_hash == request.subject),
        ("verdict", verdict == request.verdict.map(|verdict| (verdict.hash(), verdict.policy))),
        ("requirement", approval.requirement == *request.requirement),
        ("list of excluded users", approval.excluded == *request.excluded),
        ("status", approval.status == request.status),
        ("votes", approval.votes.iter().eq(request.votes.iter().copied())),
        ("request time", approval.requested_at == request.opened.at),
        ("deadlines", (approval.sla_at, approval.expires_at) == (request.sla_at, request.expires_at)),
        ("number of reminders", approval.reminders == request.reminders),
        ("escalation", approval.escalated_at == request.escalated_at),
        ("use", approval.consumed == request.consumed),
        ("action", request.used_for.is_none_or(|intent| matches_intent(&approval.subject, intent))),
    ];
    super::check_all(&conditions, |what| VerifyError::Approval { what, approval: approval.id.clone() })
}

/// Whether the approvers saw the action that was then intended.
fn matches_intent(subject: &SubjectSummary, intent: &EventBody) -> bool {
    match (subject, intent) {
        (
            SubjectSummary::Action { tool, target, class, .. },
            EventBody::EffectIntended {
                tool: intent_tool, target: intent_target, class: intent_class, ..
            },
        ) => (tool, target, class) == (intent_tool, intent_target, intent_class),
        _ => false,
    }
}
