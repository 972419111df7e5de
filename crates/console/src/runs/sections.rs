//! The tables of a run: steps, approvals, verdicts, receipts, costs, events.

use domain::money::money;
use domain::receipt::ReceiptState;
use domain::view::step_status;
use domain::{Event, EventBody, ModelUsage, Receipt, RunId, StepSeq, Verdict};
use maud::{Markup, html};
use views::verdict::ruling;
use views::{RunSnapshot, counted, event_line, tool};

use crate::text::{InlineText, approval_status, relative_time, step_status as badge};

/// A section, unless it is empty.
fn section(id: &str, title: &str, is_empty: bool, body: &Markup) -> Markup {
    html! {
        @if !is_empty { section aria-labelledby=(id) { h2 id=(id) { (title) } (body) } }
    }
}

pub(super) fn steps(snapshot: &RunSnapshot) -> Markup {
    let history = snapshot.history();
    let record = &snapshot.view.record;
    let rows = (0_u16..).map(StepSeq).zip(&snapshot.view.plan().steps);
    let table = html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "Tool" } th scope="col" { "Status" }
                th scope="col" { "Attempts" } th scope="col" { "Worker" } th scope="col" { "Error" }
            } }
            tbody { @for (seq, step) in rows {
                @let past = history.step(seq);
                tr {
                    td data-label="Step" { span.soft.number { (seq.index() + 1) } " " (step.id) }
                    td data-label="Tool" { code { (tool(&step.work)) } }
                    td data-label="Status" { (badge(step_status(record, &snapshot.view.steps, seq))) }
                    td.number data-label="Attempts" { (attempts(past.attempts.len(), past.rollback_attempts.len())) }
                    td data-label="Worker" { (past.workers().join(", ")) }
                    td.long data-label="Error" {
                        @if let Some(failure) = &past.failure { code { (failure.code) } " " (InlineText(&failure.message)) }
                    }
                }
            } }
        }
    };
    section("steps", "Steps", false, &table)
}

fn attempts(tries: usize, back: usize) -> String {
    match (tries, back) {
        (0, 0) => String::new(),
        (tries, 0) => tries.to_string(),
        (tries, back) => format!("{tries} + {back} rollback"),
    }
}

pub(super) fn approvals(snapshot: &RunSnapshot) -> Markup {
    let approvals = &snapshot.view.approvals;
    let table = html! {
        table.cards {
            thead { tr { th scope="col" { "Step" } th scope="col" { "Status" } th scope="col" { "Requested" } th scope="col" { "Decisions" } } }
            tbody { @for approval in approvals { tr {
                td data-label="Step" { a href={ "/approvals/" (approval.id) } { (approval.step) } }
                td data-label="Status" { (approval_status(approval.status)) }
                td data-label="Requested" { (relative_time(approval.requested_at, snapshot.now)) }
                td.long data-label="Decisions" {
                    @for vote in &approval.votes {
                        div {
                            (vote.person) @if vote.approve { " approved" } @else { " rejected" }
                            @if !vote.reason.is_empty() { ": " (InlineText(&vote.reason)) }
                        }
                    }
                }
            } } }
        }
    };
    section("approvals", "Approvals", approvals.is_empty(), &table)
}

/// The verdict of an event, and its target.
fn verdict_of(event: &Event) -> Option<(&Verdict, String)> {
    match &event.body {
        EventBody::EffectIntended { verdict, target, .. }
        | EventBody::ActionDenied { verdict, target, .. } => Some((verdict, target.clone())),
        EventBody::ApprovalRequested { verdict: Some(verdict), .. } => {
            Some((verdict, "before the approval request".to_owned()))
        }
        _ => event.read_verdict.as_ref().map(|verdict| (verdict, "a read".to_owned())),
    }
}

/// The policy verdicts, with the rule, its file and its line.
pub(super) fn verdicts(snapshot: &RunSnapshot) -> Markup {
    let plan = snapshot.view.plan();
    let events = snapshot.view.events.as_deref().unwrap_or_default();
    let verdicts: Vec<_> =
        events.iter().filter_map(|event| verdict_of(event).map(|verdict| (event, verdict))).collect();
    let table = html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "Target" } th scope="col" { "Verdict" }
                th scope="col" { "Rule" } th scope="col" { "Source" } th scope="col" { "Policy" }
            } }
            tbody { @for (event, (verdict, target)) in &verdicts { tr {
                td data-label="Step" { @if let Some(step) = plan.step(event.seq) { (step.id) } }
                td.long data-label="Target" { (InlineText(target)) }
                td data-label="Verdict" { (ruling(&verdict.ruling)) }
                td.long data-label="Rule" { @for reason in &verdict.reasons { div { code { (InlineText(&reason.rule)) } ": " (InlineText(&reason.message)) } } }
                td data-label="Source" { @for reason in &verdict.reasons { div { (rule_source(reason)) } } }
                td data-label="Policy" { code title=(verdict.policy) { (verdict.policy.short()) } }
            } } }
        }
    };
    section("verdicts", "Policy verdicts", verdicts.is_empty(), &table)
}

/// The file and line of a rule.
pub(crate) fn rule_source(reason: &domain::Reason) -> Markup {
    html! {
        @match (&reason.file, reason.line) {
            (Some(file), Some(line)) => code.place { (InlineText(file)) ":" (line) },
            (Some(file), None) => code.place { (InlineText(file)) },
            (None, _) => span.soft { "built in" },
        }
    }
}

/// The external effects and their outcomes.
pub(super) fn receipts(receipts: &[Receipt], run: &RunId) -> Markup {
    let table = html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "Tool" } th scope="col" { "Target" }
                th scope="col" { "Outcome" } th scope="col" { "Idempotency key" } th scope="col" { "Action" }
            } }
            tbody { @for receipt in receipts { tr {
                td data-label="Step" { (receipt.step) @if receipt.rollback { " (rollback)" } }
                td data-label="Tool" { code { (receipt.tool) } }
                td.long data-label="Target" { (InlineText(&receipt.target)) }
                td.long data-label="Outcome" { (outcome(receipt, run)) }
                td.long data-label="Idempotency key" { code { (InlineText(receipt.key.as_str())) } }
                td data-label="Action" { code title=(receipt.action) { (receipt.action.short()) } }
            } } }
        }
    };
    section("receipts", "External effects", receipts.is_empty(), &table)
}

fn outcome(receipt: &Receipt, run: &RunId) -> Markup {
    html! {
        @match &receipt.state {
            ReceiptState::Intent => "started; no outcome recorded",
            ReceiptState::Done { .. } => "done",
            ReceiptState::Failed { failure, .. } => { "failed: " code { (failure.code) } " " (InlineText(&failure.message)) }
        }
        @if receipt.run != *run { ", by run " code { (receipt.run) } }
    }
}

pub(super) fn costs(snapshot: &RunSnapshot) -> Markup {
    let plan = snapshot.view.plan();
    let paid = snapshot.charges();
    let table = html! {
        table.cards {
            thead { tr { th scope="col" { "Step" } th scope="col" { "Cost" } th scope="col" { "Usage" } } }
            tbody { @for record in &paid { tr {
                td data-label="Step" { @if let Some(step) = plan.step(record.seq) { (step.id) } @if record.rollback { " (rollback)" } }
                td.number data-label="Cost" { (money(record.microusd)) }
                td data-label="Usage" { @if let Some(usage) = record.usage { (usage_markup(usage)) } }
            } } }
        }
    };
    section("costs", "Cost", paid.is_empty(), &table)
}

fn usage_markup(usage: &ModelUsage) -> Markup {
    let ModelUsage { provider, model, input_tokens, output_tokens } = usage;
    html! { (InlineText(model)) " of " (InlineText(provider)) ": " (input_tokens) " tokens in, " (output_tokens) " out" }
}

pub(super) fn events(snapshot: &RunSnapshot) -> Markup {
    let Ok(events) = &snapshot.view.events else { return html! {} };
    let plan = snapshot.view.plan();
    let body = html! {
        p.soft { (counted(events.len(), "event")) ". Each is hashed with its predecessor: no event was changed or removed. Chain head: " code { (snapshot.view.record.head.short()) } "." }
        ol.events { @for event in events { li { (InlineText(event_line(plan, event).trim())) } } }
    };
    section("events", "Events", events.is_empty(), &body)
}
