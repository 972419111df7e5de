//! Events, verdicts and states in a line each.

use domain::{Channel, Event, EventBody, Ruling, Verdict, Vote};

use crate::bundle::{About, State};

/// What happened, in one line.
pub(super) fn event(event: &Event) -> String {
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
        EventBody::LeaseExpired { silent, fence, .. } => {
            format!("worker {silent} went silent; taken over under fence {}", fence.0)
        }
        EventBody::OutcomeUnknown { receipt, failure } => {
            format!("nobody knows whether {} happened: {}", receipt.key, failure.message)
        }
        EventBody::WaitOpened { event, deadline } => format!("waits for {event} until {deadline}"),
        EventBody::EventKept { event, .. } => format!("event {event} came early and is kept"),
        EventBody::EventDelivered { event, .. } => format!("event {event} came"),
        EventBody::TimedOut { failure } => format!("time is up: {}", failure.message),
        EventBody::EffectIntended { tool, target, verdict, .. } => {
            format!("intends {tool} on {target}: {}", self::verdict(verdict))
        }
        EventBody::ActionDenied { tool, target, verdict, .. } => {
            format!("{tool} on {target} denied: {}", self::verdict(verdict))
        }
        _ => asking(event),
    }
}

/// What happened between people, in one line.
fn asking(event: &Event) -> String {
    match &event.body {
        EventBody::ApprovalRequested { approval, demand, .. } => {
            format!("{approval} asks {} to say yes", people(demand.people.count()))
        }
        EventBody::ApprovalVoted { approval, vote, .. } => format!("{approval}: {}", self::vote(vote)),
        EventBody::ApprovalReminded { approval } => format!("{approval}: people are reminded"),
        EventBody::ApprovalEscalated { approval } => format!("{approval} is overdue; others are told"),
        EventBody::ApprovalExpired { approval, .. } => format!("{approval} lapsed"),
        EventBody::ApprovalWithdrawn { approval, reason } => format!("{approval} withdrawn: {reason}"),
        _ => steering(event),
    }
}

/// What was done to the run, in one line.
fn steering(event: &Event) -> String {
    match &event.body {
        EventBody::CancelRequested { reason } => format!("asked to stop: {reason}"),
        EventBody::RunCanceled { reason, .. } => format!("stopped: {reason}"),
        EventBody::RunFailed { reason, .. } => format!("failed: {reason}"),
        EventBody::PauseRequested { reason } => format!("asked to pause: {reason}"),
        EventBody::RunPaused { reason } => format!("paused: {reason}"),
        EventBody::RunResumed { reason } => format!("resumed: {reason}"),
        EventBody::RollbackStarted { reason, .. } => format!("takes effects back: {reason}"),
        EventBody::StepRolledBack { .. } => "taken back".to_owned(),
        other => kind(other),
    }
}

/// The name of what happened, for what has no words yet.
fn kind(body: &EventBody) -> String {
    let value = serde_json::to_value(body).unwrap_or_default();
    value["kind"].as_str().unwrap_or_default().to_owned()
}

fn people(count: usize) -> String {
    if count == 1 { "one person".to_owned() } else { format!("{count} people") }
}

/// What policy said, and why.
fn verdict(verdict: &Verdict) -> String {
    let ruling = match &verdict.ruling {
        Ruling::Deny => "denied".to_owned(),
        Ruling::Allow => "allowed".to_owned(),
        Ruling::NeedsApproval(demand) => format!("needs {}", people(demand.people.count())),
    };
    let because: Vec<_> = verdict.because.iter().map(|reason| reason.says.as_str()).collect();
    format!("{ruling}, because {}", because.join("; "))
}

/// What a person said, and through what.
pub(super) fn vote(vote: &Vote) -> String {
    let through = match &vote.through {
        Channel::CommandLine => "the command line".to_owned(),
        Channel::Slack { team, user } => format!("Slack {team}:{user}"),
        Channel::Api { credential } => format!("the API with {credential}"),
    };
    let answer = if vote.approve { "yes" } else { "no" };
    format!("{} said {answer} through {through} at {}: {}", vote.person, vote.at, vote.reason)
}

/// What people were asked about.
pub(super) fn about(about: &About) -> String {
    match about {
        About::Question => "a question of the workflow".to_owned(),
        About::Action { tool, target, fields, .. } => format!("{tool} on {target} ({})", fields.join(", ")),
    }
}

/// How an effect stands.
pub(super) fn state(state: &State) -> String {
    match state {
        State::Intent => "nobody knows whether it happened".to_owned(),
        State::Done { at, .. } => format!("done at {at}"),
        State::Failed { at, code } => format!("did not happen: {code} at {at}"),
    }
}
