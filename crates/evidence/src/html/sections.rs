//! The sections of the report.

use domain::Event;
use maud::{Markup, html};

use super::describe;
use super::visible::Visible;
use crate::bundle::{ApprovalSummary, BundleRun, BundleStepKind, Costs, EvidenceBundle, ReceiptSummary};
use crate::log::LogProof;
use crate::verify::Verified;

fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        @if !rows.is_empty() {
            section {
                h2 { (title) }
                table {
                    thead { tr { @for column in columns { th scope="col" { (column) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (Visible(cell)) } } } } }
                }
            }
        }
    }
}

pub(super) fn run(run: &BundleRun) -> Markup {
    let requester = run.trigger.requester.as_ref().map_or("none", |person| person.as_str());
    let effects = run.effects;
    let rows = [
        ("Run", run.key().to_string()),
        ("Workspace", run.workspace.to_string()),
        ("Requester", requester.to_owned()),
        ("Trigger", format!("{} {}", run.trigger.kind, run.trigger.reference)),
        ("Plan", run.plan.to_string()),
        ("Started", run.created_at.to_string()),
        ("Ended", format!("{}, after {}", run.completed_at, run.duration_ms)),
        ("Take-overs and resumes", run.resumes.to_string()),
        (
            "Effects",
            format!(
                "{} done, {} rolled back, {} outcome unknown",
                effects.done, effects.undone, effects.unknown
            ),
        ),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    table("Run", &["", ""], &rows)
}

pub(super) fn steps(bundle: &EvidenceBundle) -> Markup {
    let row = |(seq, step): (usize, &crate::bundle::BundleStep)| {
        let kind = match (step.kind, &step.tool) {
            (BundleStepKind::Call, Some(tool)) => tool.to_string(),
            (BundleStepKind::Call, None) => "call".to_owned(),
            (BundleStepKind::Wait, _) => "wait for an event".to_owned(),
            (BundleStepKind::Gate, _) => "approval gate".to_owned(),
        };
        let outcomes = bundle.outcomes.iter().filter(|outcome| outcome.seq.index() == seq);
        let statuses: Vec<_> = outcomes.map(|outcome| outcome.status.as_str()).collect();
        let status = if statuses.is_empty() { "not finished".to_owned() } else { statuses.join(", then ") };
        vec![step.id.to_string(), kind, format!("{:?}", step.blast_radius).to_lowercase(), status]
    };
    let rows: Vec<_> = bundle.steps.iter().enumerate().map(row).collect();
    table("Steps", &["Step", "Type", "Blast radius", "Status"], &rows)
}

pub(super) fn approvals(bundle: &EvidenceBundle) -> Markup {
    let row = |approval: &ApprovalSummary| {
        let votes: Vec<_> = approval.votes.iter().map(describe::vote).collect();
        let used = approval.consumed.map_or_else(
            || "not used".to_owned(),
            |consumed| format!("used at {} under fence {}", consumed.at, consumed.fence.0),
        );
        vec![
            approval.step.to_string(),
            describe::subject(&approval.subject),
            approval.status.as_str().to_owned(),
            votes.join("; "),
            used,
        ]
    };
    let mut approvals: Vec<_> = bundle.approvals.iter().collect();
    approvals.sort_by_key(|approval| approval.requested_at);
    let rows: Vec<_> = approvals.into_iter().map(row).collect();
    table("Approvals", &["Step", "Subject", "Status", "Votes", "Use"], &rows)
}

pub(super) fn receipts(bundle: &EvidenceBundle) -> Markup {
    let row = |receipt: &ReceiptSummary| {
        let step = if receipt.run == bundle.run.run {
            receipt.step.to_string()
        } else {
            format!("{} of run {}", receipt.step, receipt.run)
        };
        vec![
            step,
            receipt.tool.to_string(),
            receipt.target.clone(),
            describe::state(&receipt.state),
            receipt.key.to_string(),
            receipt.action.to_string(),
        ]
    };
    let mut receipts: Vec<_> = bundle.receipts.iter().collect();
    receipts.sort_by_key(|receipt| receipt.intended_at);
    let rows: Vec<_> = receipts.into_iter().map(row).collect();
    table("Effects", &["Step", "Tool", "Target", "State", "Key", "Action"], &rows)
}

pub(super) fn compensations(bundle: &EvidenceBundle) -> Markup {
    let lines = bundle.compensations.iter();
    let rows: Vec<_> = lines
        .map(|line| vec![line.step.to_string(), line.status.to_string(), line.key.to_string()])
        .collect();
    table("Compensations", &["Step", "Status", "Key"], &rows)
}

pub(super) fn costs(costs: &Costs) -> Markup {
    let steps = costs.steps.iter().map(|cost| (format!("step {}", cost.step), cost.microusd));
    let tools = costs.tools.iter().map(|cost| (format!("tool {}", cost.tool), cost.microusd));
    let models = costs.models.iter().map(|cost| {
        let tokens = format!("{} tokens in, {} out", cost.input_tokens, cost.output_tokens);
        (format!("{} {} ({tokens})", cost.provider, cost.model), cost.microusd)
    });
    let total = std::iter::once(("total".to_owned(), costs.total_microusd));
    let lines = total.chain(steps).chain(tools).chain(models);
    let rows: Vec<_> = lines.map(|(name, microusd)| vec![name, dollars(microusd)]).collect();
    table("Costs", &["Item", "US dollars"], &rows)
}

fn dollars(microusd: u64) -> String {
    format!("{}.{:06}", microusd / 1_000_000, microusd % 1_000_000)
}

pub(super) fn chain(verified: &Verified) -> Markup {
    let bundle = verified.bundle();
    let row = |(event, entry): (&Event, &crate::bundle::ChainEntry)| {
        let step = bundle.step(event.seq).map_or_else(String::new, |step| step.id.to_string());
        vec![
            event.n.to_string(),
            event.at.to_string(),
            event.by.id.clone(),
            step,
            describe::event(event),
            entry.hash.short(),
        ]
    };
    let rows: Vec<_> = verified.events().iter().zip(&bundle.chain).map(row).collect();
    table("Events", &["", "Time", "By", "Step", "Event", "Hash"], &rows)
}

pub(super) fn log(log: &LogProof) -> Markup {
    html! {
        section {
            h2 { "Transparency log" }
            p { "Entry " (log.index) " of " (Visible(&log.origin)) ". The log had " (log.size) " entries including this one." }
            pre { @for line in log.checkpoint.lines() { (Visible(line)) "\n" } }
        }
    }
}
