//! An event as one line that a person reads.

use domain::plan::Plan;
use domain::{ApprovalStatus, Digest, Event, EventBody, Failure, People, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::time::moment;

/// `2026-11-15T03:35:23.120Z    3  assign: done by worker-b (attempt 2)`.
pub fn event_line(plan: &Plan, event: &Event) -> String {
    event_document(plan, event).line()
}

impl EventDocument {
    /// The line that [`event_line`] gives.
    pub fn line(&self) -> String {
        let status = self.event.run.map(|run| format!("; the run is {}", run.to)).unwrap_or_default();
        format!("{}  {:>3}  {}{status}", self.at, self.n, self.text)
    }
}

/// An event as programs are told of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct EventDocument {
    /// Its number, from 0 without a gap.
    pub n: u32,
    /// When it was decided.
    pub at: String,
    /// What happened, in a sentence.
    pub text: String,
    /// What the chain holds.
    #[schema(value_type = Object)]
    pub event: Event,
    /// The hash of it and all before it, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hash: Option<Digest>,
}

/// The same for programs.
pub fn event_document(plan: &Plan, event: &Event) -> EventDocument {
    EventDocument {
        n: event.n,
        at: moment(event.at),
        text: told(plan, event),
        event: event.clone(),
        hash: None,
    }
}

/// The same as JSON; `event` is what the chain holds.
pub fn event_json(plan: &Plan, event: &Event) -> Value {
    json!(event_document(plan, event))
}

fn told(plan: &Plan, event: &Event) -> String {
    let told = body(event);
    match plan.step(event.seq).filter(|_| is_about_a_step(&event.body)) {
        Some(step) => format!("{}: {told}", step.id),
        None => told,
    }
}

/// Whether the event is about the step where the run stood, rather than about the whole run.
fn is_about_a_step(body: &EventBody) -> bool {
    !matches!(
        body,
        EventBody::RunAdmitted { .. }
            | EventBody::EventKept { .. }
            | EventBody::CancelRequested { .. }
            | EventBody::RunCanceled { .. }
            | EventBody::RunFailed { .. }
            | EventBody::PauseRequested { .. }
            | EventBody::RunPaused { .. }
            | EventBody::RunResumed { .. }
            | EventBody::RollbackStarted { .. }
    )
}

pub(crate) fn body(event: &Event) -> String {
    let by = &event.by.id;
    match &event.body {
        EventBody::RunAdmitted { workflow, version, .. } => {
            format!("started by {by}: workflow {workflow}, version {version}")
        }
        EventBody::StepSucceeded { attempt, receipt, .. } => {
            let effect =
                receipt.as_ref().map(|receipt| format!(", effect {}", receipt.key)).unwrap_or_default();
            format!("{}{effect}", done("done", attempt.as_ref()))
        }
        EventBody::StepRolledBack { attempt, .. } => done("taken back", attempt.as_ref()),
        EventBody::AttemptFailed { number, failure, not_before } => {
            let number = ordinal(*number);
            format!("attempt {number} failed: {}; next at {}", reason(failure), moment(*not_before))
        }
        EventBody::StepFailed { failure, .. } => format!("failed for good: {}", reason(failure)),
        EventBody::LeaseExpired { silent, number, .. } => {
            format!("{silent} went silent; {by} takes over as attempt {}", ordinal(*number))
        }
        EventBody::OutcomeUnknown { failure, .. } => {
            format!("outcome unknown: {}; a person must decide", reason(failure))
        }
        EventBody::EffectIntended { receipt, verdict, approval, .. } => {
            let allowed = match approval {
                Some(approval) => format!("approval {approval} is used"),
                None => format!("policy allows it ({})", rules(verdict)),
            };
            format!("about to act, effect {}: {allowed}", receipt.key)
        }
        EventBody::ActionDenied { verdict, target, .. } => {
            format!("policy says no to changing {target}: {}", because_of(verdict))
        }
        other => of_people(by, other),
    }
}

fn rules(verdict: &Verdict) -> String {
    verdict.because.iter().map(|reason| reason.rule.as_str()).collect::<Vec<_>>().join(", ")
}

fn because_of(verdict: &Verdict) -> String {
    let said = verdict.because.iter().map(|reason| format!("{} ({})", reason.says, reason.rule));
    said.collect::<Vec<_>>().join("; ")
}

/// What became of a request for approval.
fn of_approval(body: &EventBody) -> String {
    match body {
        EventBody::ApprovalRequested { demand, expires_at, verdict, .. } => {
            let who = match demand.people {
                People::One => "a person",
                People::Two => "two people",
            };
            let why =
                verdict.as_ref().map(|verdict| format!(": {}", because_of(verdict))).unwrap_or_default();
            format!("asks {who} until {}{why}", moment(*expires_at))
        }
        EventBody::ApprovalVoted { vote, status, .. } => {
            let word = if vote.approve { "approved" } else { "rejected" };
            let more = if *status == ApprovalStatus::Requested { "; another person must agree" } else { "" };
            format!("{word} by {}{}{more}", vote.person, because(&vote.reason))
        }
        EventBody::ApprovalReminded { .. } => "people were asked again".to_owned(),
        EventBody::ApprovalEscalated { .. } => "nobody has answered in time; others were told".to_owned(),
        EventBody::ApprovalExpired { failure, .. } => format!("the question lapsed: {}", reason(failure)),
        EventBody::ApprovalWithdrawn { reason, .. } => {
            format!("the question was withdrawn{}", because(reason))
        }
        _ => String::new(),
    }
}

/// Events that a person or an outside system had a hand in.
fn of_people(by: &str, body: &EventBody) -> String {
    match body {
        EventBody::WaitOpened { event, deadline } => {
            format!("waits for the event {event} until {}", moment(*deadline))
        }
        EventBody::EventKept { event, .. } => format!("the event {event} came early and is kept"),
        EventBody::EventDelivered { event, .. } => format!("the event {event} came"),
        EventBody::TimedOut { failure } => format!("ran out of time: {}", reason(failure)),
        EventBody::CancelRequested { reason } => format!("{by} asked to stop the run{}", because(reason)),
        EventBody::RunCanceled { reason, .. } => format!("stopped{}", because(reason)),
        EventBody::RunFailed { reason, .. } => {
            format!("failed, and everything that could be was taken back{}", because(reason))
        }
        EventBody::PauseRequested { reason } => format!("{by} asked to pause the run{}", because(reason)),
        EventBody::RunPaused { reason } => format!("paused{}", because(reason)),
        EventBody::RunResumed { reason } => format!("{by} said to go on{}", because(reason)),
        EventBody::RollbackStarted { reason, .. } => format!("taking effects back{}", because(reason)),
        EventBody::ApprovalRequested { .. }
        | EventBody::ApprovalVoted { .. }
        | EventBody::ApprovalReminded { .. }
        | EventBody::ApprovalEscalated { .. }
        | EventBody::ApprovalExpired { .. }
        | EventBody::ApprovalWithdrawn { .. } => of_approval(body),
        EventBody::RunAdmitted { .. }
        | EventBody::EffectIntended { .. }
        | EventBody::ActionDenied { .. }
        | EventBody::StepSucceeded { .. }
        | EventBody::StepRolledBack { .. }
        | EventBody::AttemptFailed { .. }
        | EventBody::StepFailed { .. }
        | EventBody::LeaseExpired { .. }
        | EventBody::OutcomeUnknown { .. } => String::new(),
    }
}

fn done(what: &str, attempt: Option<&domain::event::Attempt>) -> String {
    match attempt {
        Some(attempt) if attempt.number == 0 => format!("{what} by {}", attempt.worker),
        Some(attempt) => format!("{what} by {} (attempt {})", attempt.worker, ordinal(attempt.number)),
        None => format!("{what}: the receipt of an earlier attempt already held the result"),
    }
}

fn ordinal(number: u32) -> u32 {
    number.saturating_add(1)
}

fn reason(failure: &Failure) -> String {
    format!("{}: {}", failure.code, failure.message)
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
