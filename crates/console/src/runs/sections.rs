//! The tables of a run: steps, requests, verdicts, receipts, costs, events.

use domain::receipt::ReceiptState;
use domain::view::step_status;
use domain::{Event, EventBody, Receipt, RunId, StepSeq, Usage, Verdict};
use maud::{Markup, html};
use views::verdict::ruling;
use views::{Seen as Look, counted, event_line, money, tool};

use crate::text::{Seen, approval_status, step_status as badge, when};

/// A section, unless there is nothing in it.
fn section(id: &str, title: &str, is_empty: bool, body: &Markup) -> Markup {
    html! {
        @if !is_empty { section aria-labelledby=(id) { h2 id=(id) { (title) } (body) } }
    }
}

/// The steps.
pub(super) fn steps(look: &Look) -> Markup {
    let history = look.history();
    let record = &look.view.record;
    let rows = (0_u16..).map(StepSeq).zip(&look.view.plan().steps);
    let table = html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "Tool" } th scope="col" { "Status" }
                th scope="col" { "Tries" } th scope="col" { "By" } th scope="col" { "What went wrong" }
            } }
            tbody { @for (seq, step) in rows {
                @let past = history.step(seq);
                tr {
                    td data-label="Step" { span.soft.number { (seq.index() + 1) } " " (step.id) }
                    td data-label="Tool" { code { (tool(&step.work)) } }
                    td data-label="Status" { (badge(step_status(record, &look.view.steps, seq))) }
                    td.number data-label="Tries" { (tries(past.tries.len(), past.undo_tries.len())) }
                    td data-label="By" { (past.workers().join(", ")) }
                    td.long data-label="What went wrong" {
                        @if let Some(failure) = &past.failure { code { (failure.code) } " " (Seen(&failure.message)) }
                    }
                }
            } }
        }
    };
    section("steps", "Steps", false, &table)
}

fn tries(tries: usize, back: usize) -> String {
    match (tries, back) {
        (0, 0) => String::new(),
        (tries, 0) => tries.to_string(),
        (tries, back) => format!("{tries} + {back} back"),
    }
}

/// The requests for approval.
pub(super) fn approvals(look: &Look) -> Markup {
    let asked = &look.view.approvals;
    let table = html! {
        table.cards {
            thead { tr { th scope="col" { "Step" } th scope="col" { "Status" } th scope="col" { "Asked" } th scope="col" { "Answers" } } }
            tbody { @for approval in asked { tr {
                td data-label="Step" { a href={ "/approvals/" (approval.id) } { (approval.step) } }
                td data-label="Status" { (approval_status(approval.status)) }
                td data-label="Asked" { (when(approval.asked_at, look.now)) }
                td.long data-label="Answers" {
                    @for vote in &approval.votes {
                        div {
                            (vote.person) @if vote.approve { " said yes" } @else { " said no" }
                            @if !vote.reason.is_empty() { ": " (Seen(&vote.reason)) }
                        }
                    }
                }
            } } }
        }
    };
    section("approvals", "What people were asked", asked.is_empty(), &table)
}

/// A verdict, and about what.
fn verdict_of(event: &Event) -> Option<(&Verdict, String)> {
    match &event.body {
        EventBody::EffectIntended { verdict, target, .. }
        | EventBody::ActionDenied { verdict, target, .. } => Some((verdict, target.clone())),
        EventBody::ApprovalRequested { verdict: Some(verdict), .. } => {
            Some((verdict, "before it asked people".to_owned()))
        }
        _ => None,
    }
}

/// What policy said, by which rule, in which file and line.
pub(super) fn verdicts(look: &Look) -> Markup {
    let plan = look.view.plan();
    let events = look.view.events.as_deref().unwrap_or_default();
    let said: Vec<_> =
        events.iter().filter_map(|event| verdict_of(event).map(|said| (event, said))).collect();
    let table = html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "About" } th scope="col" { "Verdict" }
                th scope="col" { "Rule" } th scope="col" { "Where it stands" } th scope="col" { "Policy" }
            } }
            tbody { @for (event, (verdict, about)) in &said { tr {
                td data-label="Step" { @if let Some(step) = plan.step(event.seq) { (step.id) } }
                td.long data-label="About" { (Seen(about)) }
                td data-label="Verdict" { (ruling(&verdict.ruling)) }
                td.long data-label="Rule" { @for reason in &verdict.because { div { code { (Seen(&reason.rule)) } ": " (Seen(&reason.says)) } } }
                td data-label="Where it stands" { @for reason in &verdict.because { div { (place(reason)) } } }
                td data-label="Policy" { code title=(verdict.policy) { (verdict.policy.short()) } }
            } } }
        }
    };
    section("verdicts", "What policy said", said.is_empty(), &table)
}

/// Where a rule stands.
pub(crate) fn place(reason: &domain::Reason) -> Markup {
    html! {
        @match (&reason.file, reason.line) {
            (Some(file), Some(line)) => code.place { (Seen(file)) ":" (line) },
            (Some(file), None) => code.place { (Seen(file)) },
            (None, _) => span.soft { "the runtime's own" },
        }
    }
}

/// What was attempted outside, and what came of it.
pub(super) fn receipts(receipts: &[Receipt], run: &RunId) -> Markup {
    let table = html! {
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "Tool" } th scope="col" { "Target" }
                th scope="col" { "Outcome" } th scope="col" { "Idempotency key" } th scope="col" { "Action" }
            } }
            tbody { @for receipt in receipts { tr {
                td data-label="Step" { (receipt.step) @if receipt.undo { " (taken back)" } }
                td data-label="Tool" { code { (receipt.tool) } }
                td.long data-label="Target" { (Seen(&receipt.target)) }
                td.long data-label="Outcome" { (outcome(receipt, run)) }
                td.long data-label="Idempotency key" { code { (Seen(receipt.key.as_str())) } }
                td data-label="Action" { code title=(receipt.action) { (receipt.action.short()) } }
            } } }
        }
    };
    section("receipts", "What it did outside", receipts.is_empty(), &table)
}

fn outcome(receipt: &Receipt, run: &RunId) -> Markup {
    html! {
        @match &receipt.state {
            ReceiptState::Intent => "intended; no result was recorded",
            ReceiptState::Done { .. } => "done",
            ReceiptState::Failed { failure, .. } => { "failed: " code { (failure.code) } " " (Seen(&failure.message)) }
        }
        @if receipt.run != *run { ", by run " code { (receipt.run) } }
    }
}

/// What each step cost, and what for.
pub(super) fn costs(look: &Look) -> Markup {
    let plan = look.view.plan();
    let paid: Vec<_> =
        look.view.steps.iter().filter(|step| step.cost_microusd > 0 || step.usage.is_some()).collect();
    let table = html! {
        table.cards {
            thead { tr { th scope="col" { "Step" } th scope="col" { "Cost" } th scope="col" { "For" } } }
            tbody { @for record in &paid { tr {
                td data-label="Step" { @if let Some(step) = plan.step(record.seq) { (step.id) } @if record.undo { " (taken back)" } }
                td.number data-label="Cost" { (money(record.cost_microusd)) }
                td data-label="For" { @if let Some(usage) = &record.usage { (used(usage)) } }
            } } }
        }
    };
    section("costs", "What it cost", paid.is_empty(), &table)
}

fn used(usage: &Usage) -> Markup {
    let Usage { provider, model, input_tokens, output_tokens } = usage;
    html! { (Seen(model)) " of " (Seen(provider)) ": " (input_tokens) " tokens in, " (output_tokens) " out" }
}

/// What happened, in its order.
pub(super) fn events(look: &Look) -> Markup {
    let Ok(events) = &look.view.events else { return html! {} };
    let plan = look.view.plan();
    let body = html! {
        p.soft { (counted(events.len(), "event")) ", each hashed over the one before it: nothing was altered or left out. The newest is " code { (look.view.record.head.short()) } "." }
        ol.events { @for event in events { li { (Seen(event_line(plan, event).trim())) } } }
    };
    section("events", "Events", events.is_empty(), &body)
}
