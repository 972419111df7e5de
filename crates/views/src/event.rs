//! An event as one line of text.

use domain::money::money;
use domain::plan::Plan;
use domain::{ApprovalStatus, ApproverCount, Digest, Event, EventBody, Failure, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::time::{in_seconds, rfc3339_millis, timestamp};

/// `2026-11-15T03:35:23Z    3  assign: completed by worker-b (attempt 2)`.
pub fn event_line(plan: &Plan, event: &Event) -> String {
    event_document(plan, event).line()
}

impl EventDocument {
    /// The same line as [`event_line`].
    pub fn line(&self) -> String {
        let status = self.event.run.map(|run| format!("; the run is {}", run.to)).unwrap_or_default();
        format!("{}  {:>3}  {}{status}", in_seconds(&self.at), self.n, self.text)
    }
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Event)]
pub struct EventDocument {
    /// The number of the event in the chain, from 0 without gaps.
    pub n: u32,
    pub at: String,
    /// The event in one sentence.
    pub text: String,
    /// The event as the chain stores it.
    #[schema(value_type = Object)]
    pub event: Event,
    /// The hash of the event and of all events before it; absent in a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub hash: Option<Digest>,
}

pub fn event_document(plan: &Plan, event: &Event) -> EventDocument {
    EventDocument {
        n: event.n,
        at: rfc3339_millis(event.at),
        text: sentence(plan, event),
        event: event.clone(),
        hash: None,
    }
}

pub fn event_json(plan: &Plan, event: &Event) -> Value {
    json!(event_document(plan, event))
}

fn sentence(plan: &Plan, event: &Event) -> String {
    let text = body_text(event);
    match plan.step(event.seq).filter(|_| is_about_a_step(&event.body)) {
        Some(step) => format!("{}: {text}", step.id),
        None => text,
    }
}

/// Whether the event is about the current step of the run, not about the whole run.
fn is_about_a_step(body: &EventBody) -> bool {
    !matches!(
        body,
        EventBody::RunAdmitted { .. }
            | EventBody::EventBuffered { .. }
            | EventBody::CancelRequested { .. }
            | EventBody::RunCanceled { .. }
            | EventBody::RunFailed { .. }
            | EventBody::PauseRequested { .. }
            | EventBody::RunPaused { .. }
            | EventBody::RunResumed { .. }
            | EventBody::RollbackStarted { .. }
    )
}

pub(crate) fn body_text(event: &Event) -> String {
    let by = &event.by.id;
    match &event.body {
        EventBody::RunAdmitted { workflow, version, .. } => {
            format!("started by {by}: workflow {workflow}, version {version}")
        }
        EventBody::StepSucceeded { attempt, receipt, .. } => {
            let effect =
                receipt.as_ref().map(|receipt| format!(", effect {}", receipt.key)).unwrap_or_default();
            format!("{}{effect}", attempt_text("completed", attempt.as_ref()))
        }
        EventBody::StepRolledBack { attempt, .. } => attempt_text("rolled back", attempt.as_ref()),
        EventBody::AttemptFailed { number, failure, not_before } => {
            let number = ordinal(*number);
            format!("attempt {number} failed: {}; retry at {}", reason(failure), timestamp(*not_before))
        }
        EventBody::AttemptCharged { number, cost_microusd, .. } => {
            format!("attempt {} cost {}", ordinal(*number), money(*cost_microusd))
        }
        EventBody::StepFailed { failure, .. } => format!("failed permanently: {}", reason(failure)),
        EventBody::LeaseExpired { previous_worker, number, .. } => {
            format!(
                "the lease of {previous_worker} expired; {by} takes over with attempt {}",
                ordinal(*number)
            )
        }
        EventBody::OutcomeUnknown { failure, .. } => {
            format!("outcome unknown: {}; an operator must decide", reason(failure))
        }
        EventBody::EffectIntended { receipt, verdict, approval, .. } => {
            let allowed = match approval {
                Some(approval) => format!("with approval {approval}"),
                None => format!("allowed by policy ({})", rules(verdict)),
            };
            format!("effect {} starts, {allowed}", receipt.key)
        }
        EventBody::ActionDenied { tool, verdict, target, .. } => {
            format!("policy denied {tool} on {target}: {}", reasons_text(verdict))
        }
        other => external_text(by, other),
    }
}

fn rules(verdict: &Verdict) -> String {
    verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect::<Vec<_>>().join(", ")
}

fn reasons_text(verdict: &Verdict) -> String {
    let reasons = verdict.reasons.iter().map(|reason| format!("{} ({})", reason.message, reason.rule));
    reasons.collect::<Vec<_>>().join("; ")
}

fn approval_text(body: &EventBody) -> String {
    match body {
        EventBody::ApprovalRequested { requirement, expires_at, verdict, .. } => {
            let who = match requirement.people {
                ApproverCount::One => "one approver",
                ApproverCount::Two => "two approvers",
            };
            let why =
                verdict.as_ref().map(|verdict| format!(": {}", reasons_text(verdict))).unwrap_or_default();
            format!("waits for {who} until {}{why}", timestamp(*expires_at))
        }
        EventBody::ApprovalVoted { vote, status, .. } => {
            let word = if vote.approve { "approved" } else { "rejected" };
            let more =
                if *status == ApprovalStatus::Requested { "; a second approver is required" } else { "" };
            format!("{word} by {}{}{more}", vote.person, reason_suffix(&vote.reason))
        }
        EventBody::ApprovalReminded { .. } => "reminder sent to the approvers".to_owned(),
        EventBody::ApprovalEscalated { .. } => "approval overdue; escalated".to_owned(),
        EventBody::ApprovalExpired { failure, .. } => format!("approval expired: {}", reason(failure)),
        EventBody::ApprovalWithdrawn { reason, .. } => {
            format!("approval withdrawn{}", reason_suffix(reason))
        }
        _ => String::new(),
    }
}

/// Events that a user or an external system caused.
fn external_text(by: &str, body: &EventBody) -> String {
    match body {
        EventBody::WaitOpened { event, deadline } => {
            format!("waits for the event {event} until {}", timestamp(*deadline))
        }
        EventBody::EventBuffered { event, .. } => format!("the event {event} arrived early and is stored"),
        EventBody::EventDelivered { event, .. } => format!("the event {event} arrived"),
        EventBody::TimedOut { failure } => format!("timed out: {}", reason(failure)),
        EventBody::CancelRequested { reason } => {
            format!("{by} requested cancellation{}", reason_suffix(reason))
        }
        EventBody::RunCanceled { reason, .. } => format!("canceled{}", reason_suffix(reason)),
        EventBody::RunFailed { reason, .. } => {
            format!("failed after the rollback{}", reason_suffix(reason))
        }
        EventBody::PauseRequested { reason } => format!("{by} requested a pause{}", reason_suffix(reason)),
        EventBody::RunPaused { reason } => format!("paused{}", reason_suffix(reason)),
        EventBody::RunResumed { reason } => format!("{by} resumed the run{}", reason_suffix(reason)),
        EventBody::RollbackStarted { reason, .. } => format!("rollback started{}", reason_suffix(reason)),
        EventBody::ApprovalRequested { .. }
        | EventBody::ApprovalVoted { .. }
        | EventBody::ApprovalReminded { .. }
        | EventBody::ApprovalEscalated { .. }
        | EventBody::ApprovalExpired { .. }
        | EventBody::ApprovalWithdrawn { .. } => approval_text(body),
        EventBody::RunAdmitted { .. }
        | EventBody::EffectIntended { .. }
        | EventBody::ActionDenied { .. }
        | EventBody::StepSucceeded { .. }
        | EventBody::StepRolledBack { .. }
        | EventBody::AttemptFailed { .. }
        | EventBody::AttemptCharged { .. }
        | EventBody::StepFailed { .. }
        | EventBody::LeaseExpired { .. }
        | EventBody::OutcomeUnknown { .. } => String::new(),
    }
}

fn attempt_text(what: &str, attempt: Option<&domain::event::Attempt>) -> String {
    match attempt {
        Some(attempt) if attempt.number == 0 => format!("{what} by {}", attempt.worker),
        Some(attempt) => format!("{what} by {} (attempt {})", attempt.worker, ordinal(attempt.number)),
        None => format!("{what}: the receipt of an earlier attempt has the result"),
    }
}

fn ordinal(number: u32) -> u32 {
    number.saturating_add(1)
}

fn reason(failure: &Failure) -> String {
    format!("{}: {}", failure.code, failure.message)
}

fn reason_suffix(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}
