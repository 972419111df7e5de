//! The requests for approval, held against the chain.
//!
//! What the chain tells of a request is followed event by event; in the end the bundle must describe it the
//! same way. Who may answer, how many must, and until when, is judged again here.

use std::collections::{BTreeMap, BTreeSet};

use domain::approval::Consumed;
use domain::{
    ApprovalId, ApprovalStatus, Demand, Digest, Event, EventBody, PersonId, Timestamp, Verdict, Vote,
};

use crate::bundle::{About, ApprovalSummary, Bundle};
use crate::fault::Fault;

/// A request as the chain tells it.
pub(super) struct Request<'a> {
    /// The event that asked.
    asked: &'a Event,
    subject: Digest,
    demand: &'a Demand,
    verdict: Option<&'a Verdict>,
    excluded: &'a [PersonId],
    sla_at: Timestamp,
    expires_at: Timestamp,
    votes: Vec<&'a Vote>,
    status: ApprovalStatus,
    reminders: u32,
    escalated_at: Option<Timestamp>,
    consumed: Option<Consumed>,
    /// The body of the intent that used it last.
    used_for: Option<&'a EventBody>,
}

/// The requests of a run, each as it ended.
pub(super) type Requests<'a> = BTreeMap<&'a ApprovalId, Request<'a>>;

/// The requests that the chain tells of, if the bundle describes the very same ones.
pub(super) fn check<'a>(bundle: &'a Bundle, events: &'a [Event]) -> Result<Requests<'a>, Fault> {
    super::ascending("approvals", bundle.approvals.iter().map(|approval| &approval.id))?;
    let mut requests = Requests::new();
    for event in events {
        follow(&mut requests, event, bundle)?;
    }
    for approval in &bundle.approvals {
        let unasked = || Fault::NeverAsked { approval: approval.id.clone() };
        described(approval, requests.get(&approval.id).ok_or_else(unasked)?, bundle)?;
    }
    let known = |id: &ApprovalId| bundle.approvals.binary_search_by(|approval| approval.id.cmp(id)).is_ok();
    match requests.iter().find(|(id, _)| !known(id)) {
        Some((id, request)) => Err(Fault::ApprovalMissing { n: request.asked.n, approval: (*id).clone() }),
        None => Ok(requests),
    }
}

fn follow<'a>(requests: &mut Requests<'a>, event: &'a Event, bundle: &Bundle) -> Result<(), Fault> {
    match &event.body {
        EventBody::ApprovalRequested { approval, .. } => ask(requests, approval, event, bundle),
        EventBody::ApprovalVoted { approval, subject, vote, status } => {
            open(requests, approval, event)?.count(approval, *subject, vote, *status, event)
        }
        EventBody::ApprovalReminded { approval } => {
            open(requests, approval, event)?.reminders += 1;
            Ok(())
        }
        EventBody::ApprovalEscalated { approval } => {
            open(requests, approval, event)?.escalated_at = Some(event.at);
            Ok(())
        }
        EventBody::ApprovalExpired { approval, .. } => {
            open(requests, approval, event)?.status = ApprovalStatus::Expired;
            Ok(())
        }
        EventBody::ApprovalWithdrawn { approval, .. } => withdraw(requests, approval, event),
        EventBody::EffectIntended { receipt, verdict, approval, fence, .. } => {
            let Some(request) = covering(requests, event, verdict, approval.as_ref(), receipt.action)? else {
                return Ok(());
            };
            request.consumed = Some(Consumed { fence: *fence, at: event.at });
            request.used_for = Some(&event.body);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn ask<'a>(
    requests: &mut Requests<'a>,
    id: &'a ApprovalId,
    event: &'a Event,
    bundle: &Bundle,
) -> Result<(), Fault> {
    let impossible = || Fault::ApprovalTransition { n: event.n, approval: id.clone() };
    let number = u32::try_from(requests.len()).unwrap_or(u32::MAX);
    let EventBody::ApprovalRequested { subject, demand, verdict, excluded, sla_at, expires_at, .. } =
        &event.body
    else {
        return Err(impossible());
    };
    // An id is made of the run and the number of the request, so that it cannot be brought in from another.
    if *id != ApprovalId::derive(&bundle.run.key(), number) {
        return Err(impossible());
    }
    let request = Request {
        asked: event,
        subject: *subject,
        demand,
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

/// The request called `id`, if people can still answer it.
fn open<'r, 'a>(
    requests: &'r mut Requests<'a>,
    id: &ApprovalId,
    event: &Event,
) -> Result<&'r mut Request<'a>, Fault> {
    let request = requests.get_mut(id).filter(|request| request.status == ApprovalStatus::Requested);
    request.ok_or_else(|| Fault::ApprovalTransition { n: event.n, approval: id.clone() })
}

fn withdraw(requests: &mut Requests<'_>, id: &ApprovalId, event: &Event) -> Result<(), Fault> {
    let unused = |request: &&mut Request<'_>| {
        let live = matches!(request.status, ApprovalStatus::Requested | ApprovalStatus::Approved);
        live && request.consumed.is_none()
    };
    let impossible = || Fault::ApprovalTransition { n: event.n, approval: id.clone() };
    requests.get_mut(id).filter(unused).ok_or_else(impossible)?.status = ApprovalStatus::Canceled;
    Ok(())
}

impl<'a> Request<'a> {
    /// Counts a vote, and holds what the event says came of it against the count.
    fn count(
        &mut self,
        id: &ApprovalId,
        subject: Digest,
        vote: &'a Vote,
        status: ApprovalStatus,
        event: &Event,
    ) -> Result<(), Fault> {
        if self.excluded.contains(&vote.person) {
            return Err(Fault::Excluded { approval: id.clone(), person: vote.person.clone() });
        }
        self.votes.push(vote);
        self.status = match (vote.approve, self.approvers() >= self.demand.people.count()) {
            (false, _) => ApprovalStatus::Rejected,
            (true, true) => ApprovalStatus::Approved,
            (true, false) => ApprovalStatus::Requested,
        };
        let fits = subject == self.subject
            && status == self.status
            && vote.at == event.at
            && vote.at < self.expires_at
            && (event.seq, event.undo) == (self.asked.seq, self.asked.undo);
        if fits { Ok(()) } else { Err(Fault::ApprovalTransition { n: event.n, approval: id.clone() }) }
    }

    /// How many different people said yes.
    fn approvers(&self) -> usize {
        let yes = self.votes.iter().filter(|vote| vote.approve);
        yes.map(|vote| &vote.person).collect::<BTreeSet<_>>().len()
    }

    /// Why this request, as it stands, does not cover an effect; nothing if it does.
    fn shortfall(
        &self,
        event: &Event,
        verdict: &Verdict,
        demand: &Demand,
        action: Digest,
    ) -> Option<&'static str> {
        let policy = self.verdict.map(|verdict| verdict.policy);
        let facts = [
            ("it is not approved", self.status == ApprovalStatus::Approved),
            ("it is about another action", self.subject == action),
            ("it is about another step", (self.asked.seq, self.asked.undo) == (event.seq, event.undo)),
            ("it was given under another policy", policy == Some(verdict.policy)),
            ("fewer people were asked for", self.demand.covers(demand)),
            ("too few people said yes", self.approvers() >= demand.people.count()),
            ("it had lapsed", event.at < self.expires_at),
        ];
        facts.into_iter().find(|(_, holds)| !holds).map(|(why, _)| why)
    }
}

/// The request that allows the effect which `event` intends, if its verdict asks for one. Only what the
/// chain has told before the intent counts.
fn covering<'r, 'a>(
    requests: &'r mut Requests<'a>,
    event: &Event,
    verdict: &Verdict,
    approval: Option<&ApprovalId>,
    action: Digest,
) -> Result<Option<&'r mut Request<'a>>, Fault> {
    use domain::Ruling;
    let n = event.n;
    match (&verdict.ruling, approval) {
        (Ruling::Deny, _) => Err(Fault::Denied { n }),
        (Ruling::Allow, None) => Ok(None),
        (Ruling::Allow, Some(_)) => Err(Fault::Unasked { n }),
        (Ruling::NeedsApproval(_), None) => Err(Fault::Unapproved { n }),
        (Ruling::NeedsApproval(demand), Some(id)) => {
            let missing = || Fault::ApprovalMissing { n, approval: id.clone() };
            let request = requests.get_mut(id).ok_or_else(missing)?;
            match request.shortfall(event, verdict, demand, action) {
                Some(why) => Err(Fault::NotCovered { n, approval: id.clone(), why }),
                None => Ok(Some(request)),
            }
        }
    }
}

/// Refuses an approval that the chain tells otherwise.
fn described(approval: &ApprovalSummary, request: &Request<'_>, bundle: &Bundle) -> Result<(), Fault> {
    let judged = match &approval.about {
        About::Question => None,
        About::Action { verdict, policy, .. } => Some((*verdict, *policy)),
    };
    let step = bundle.step(approval.seq).map(|step| &step.id);
    let facts = [
        ("step", step == Some(&approval.step) && approval.seq == request.asked.seq),
        ("direction", approval.undo == request.asked.undo),
        ("subject", approval.subject == request.subject),
        ("verdict", judged == request.verdict.map(|verdict| (verdict.hash(), verdict.policy))),
        ("demand", approval.demand == *request.demand),
        ("requester", approval.requester == bundle.run.trigger.requester),
        ("author", approval.author == bundle.run.author),
        ("list of who may not answer", approval.excluded() == request.excluded),
        ("status", approval.status == request.status),
        ("votes", approval.votes.iter().eq(request.votes.iter().copied())),
        ("time of asking", approval.asked_at == request.asked.at),
        ("deadlines", (approval.sla_at, approval.expires_at) == (request.sla_at, request.expires_at)),
        ("count of reminders", approval.reminders == request.reminders),
        ("escalation", approval.escalated_at == request.escalated_at),
        ("use", approval.consumed == request.consumed),
        ("action", request.used_for.is_none_or(|intent| shows(&approval.about, intent))),
    ];
    super::all(&facts, |what| Fault::Approval { what, approval: approval.id.clone() })
}

/// Whether people were shown what was then intended.
fn shows(about: &About, intent: &EventBody) -> bool {
    match (about, intent) {
        (
            About::Action { tool, target, class, .. },
            EventBody::EffectIntended { tool: used, target: on, class: as_class, .. },
        ) => (tool, target, class) == (used, on, as_class),
        _ => false,
    }
}
