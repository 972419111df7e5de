//! Describes events, verdicts and states in one line each.

use domain::money::money;
use domain::{Channel, Event, EventBody, Ruling, Verdict, Vote};

use crate::bundle::{ReceiptStatus, SubjectSummary};

pub(super) fn event(event: &Event) -> String {
    match &event.read_verdict {
        Some(verdict) => format!("{}; read {}", step_event(event), self::verdict(verdict)),
        None => step_event(event),
    }
}

fn step_event(event: &Event) -> String {
    match &event.body {
        EventBody::RunAdmitted { trigger, .. } => {
            format!("admitted by {} {}", trigger.kind, trigger.reference)
        }
        EventBody::StepSucceeded { attempt: Some(attempt), .. } => {
            format!("succeeded in attempt {} by {}", attempt.number + 1, attempt.worker)
        }
        EventBody::StepSucceeded { attempt: None, .. } => "succeeded with an earlier receipt".to_owned(),
        EventBody::AttemptFailed { number, failure, .. } | EventBody::StepFailed { number, failure } => {
            format!("attempt {} failed: {} {}", number + 1, failure.code, failure.message)
        }
        EventBody::AttemptCharged { number, cost_microusd, .. } => {
            format!("attempt {} cost {}", number + 1, money(*cost_microusd))
        }
        EventBody::LeaseExpired { previous_worker, fence, .. } => {
            format!("worker {previous_worker} lost its lease; taken over under fence {}", fence.0)
        }
        EventBody::OutcomeUnknown { receipt, failure } => {
            format!("outcome of {} unknown: {}", receipt.key, failure.message)
        }
        EventBody::WaitOpened { event, deadline } => format!("waiting for {event} until {deadline}"),
        EventBody::EventBuffered { event, .. } => format!("event {event} arrived early and is buffered"),
        EventBody::EventDelivered { event, .. } => format!("event {event} arrived"),
        EventBody::TimedOut { failure } => format!("timed out: {}", failure.message),
        EventBody::EffectIntended { tool, target, verdict, .. } => {
            format!("intends {tool} on {target}: {}", self::verdict(verdict))
        }
        EventBody::ActionDenied { tool, target, verdict, .. } => {
            format!("{tool} on {target} denied: {}", self::verdict(verdict))
        }
        _ => approval_event(event),
    }
}

fn approval_event(event: &Event) -> String {
    match &event.body {
        EventBody::ApprovalRequested { approval, requirement, .. } => {
            format!("{approval} requested from {}", approvers(requirement.people.count()))
        }
        EventBody::ApprovalVoted { approval, vote, .. } => format!("{approval}: {}", self::vote(vote)),
        EventBody::ApprovalReminded { approval } => format!("{approval}: reminder sent"),
        EventBody::ApprovalEscalated { approval } => format!("{approval}: overdue and escalated"),
        EventBody::ApprovalExpired { approval, .. } => format!("{approval} expired"),
        EventBody::ApprovalWithdrawn { approval, reason } => format!("{approval} withdrawn: {reason}"),
        _ => run_event(event),
    }
}

fn run_event(event: &Event) -> String {
    match &event.body {
        EventBody::CancelRequested { reason } => format!("cancellation requested: {reason}"),
        EventBody::RunCanceled { reason, .. } => format!("canceled: {reason}"),
        EventBody::RunFailed { reason, .. } => format!("failed: {reason}"),
        EventBody::PauseRequested { reason } => format!("pause requested: {reason}"),
        EventBody::RunPaused { reason } => format!("paused: {reason}"),
        EventBody::RunResumed { reason } => format!("resumed: {reason}"),
        EventBody::RollbackStarted { reason, .. } => format!("rollback started: {reason}"),
        EventBody::StepRolledBack { .. } => "rolled back".to_owned(),
        other => kind(other),
    }
}

/// The event kind, for events without a description.
fn kind(body: &EventBody) -> String {
    let value = serde_json::to_value(body).unwrap_or_default();
    value["kind"].as_str().unwrap_or_default().to_owned()
}

fn approvers(count: usize) -> String {
    if count == 1 { "one approver".to_owned() } else { format!("{count} approvers") }
}

fn verdict(verdict: &Verdict) -> String {
    let ruling = match &verdict.ruling {
        Ruling::Deny => "denied".to_owned(),
        Ruling::Allow => "allowed".to_owned(),
        Ruling::NeedsApproval(requirement) => format!("needs {}", approvers(requirement.people.count())),
    };
    let reasons: Vec<_> = verdict.reasons.iter().map(|reason| reason.message.as_str()).collect();
    if reasons.is_empty() { ruling } else { format!("{ruling}: {}", reasons.join("; ")) }
}

pub(super) fn vote(vote: &Vote) -> String {
    let through = match &vote.through {
        Channel::CommandLine => "the command line".to_owned(),
        Channel::Slack { team, user } => format!("Slack {team}:{user}"),
        Channel::Api { credential } => format!("the API with {credential}"),
    };
    let decision = if vote.approve { "approved" } else { "rejected" };
    format!("{} {decision} via {through} at {}: {}", vote.person, vote.at, vote.reason)
}

pub(super) fn subject(subject: &SubjectSummary) -> String {
    match subject {
        SubjectSummary::Question => "an approval gate of the workflow".to_owned(),
        SubjectSummary::Action { tool, target, fields, .. } => {
            format!("{tool} on {target} ({})", fields.join(", "))
        }
    }
}

pub(super) fn state(state: &ReceiptStatus) -> String {
    match state {
        ReceiptStatus::Intent => "outcome unknown".to_owned(),
        ReceiptStatus::Done { at, .. } => format!("done at {at}"),
        ReceiptStatus::Failed { at, code } => format!("did not happen: {code} at {at}"),
    }
}
