//! An event as one line that a person reads.

use domain::plan::Plan;
use domain::{Event, EventBody, Failure, StepSeq};
use serde_json::{Value, json};

use crate::time::moment;

/// `2026-11-15T03:35:23.120Z    3  assign: done by worker-b (attempt 2)`.
pub(crate) fn event_line(plan: &Plan, step: Option<StepSeq>, event: &Event) -> String {
    let told = told(plan, step, event);
    let status = event.run.map(|run| format!("; the run is {}", run.to)).unwrap_or_default();
    format!("{}  {:>3}  {told}{status}", moment(event.at), event.n)
}

/// The same for programs; `event` is what the chain holds.
pub(crate) fn event_json(plan: &Plan, step: Option<StepSeq>, event: &Event) -> Value {
    json!({ "n": event.n, "at": moment(event.at), "text": told(plan, step, event), "event": event })
}

fn told(plan: &Plan, step: Option<StepSeq>, event: &Event) -> String {
    let told = body(event);
    match step.and_then(|seq| plan.step(seq)) {
        Some(step) => format!("{}: {told}", step.id),
        None => told,
    }
}

fn body(event: &Event) -> String {
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
            format!("outcome unknown: {}; a person must decide", failure.message)
        }
        other => of_people(by, other),
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
        EventBody::ApprovalRequested { deadline, .. } => format!("asks a person until {}", moment(*deadline)),
        EventBody::ApprovalDecided { approved: true, reason } => {
            format!("approved by {by}{}", because(reason))
        }
        EventBody::ApprovalDecided { approved: false, reason } => {
            format!("rejected by {by}{}", because(reason))
        }
        EventBody::CancelRequested { reason } => format!("{by} asked to stop the run{}", because(reason)),
        EventBody::RunCanceled { reason, .. } => format!("stopped{}", because(reason)),
        EventBody::PauseRequested { reason } => format!("{by} asked to pause the run{}", because(reason)),
        EventBody::RunPaused { reason } => format!("paused{}", because(reason)),
        EventBody::RunResumed { reason } => format!("{by} said to go on{}", because(reason)),
        EventBody::RollbackStarted { reason, .. } => format!("taking effects back{}", because(reason)),
        EventBody::RunAdmitted { .. }
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
