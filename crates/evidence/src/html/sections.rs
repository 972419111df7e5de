//! The sections of the report, one for each part of the bundle.

use domain::Event;
use maud::{Markup, html};

use super::text::Seen;
use super::words;
use crate::bundle::{ApprovalSummary, Bundle, Costs, Kind, ReceiptSummary, Run};
use crate::log::Log;
use crate::verify::Verified;

/// A section with a table.
fn table(title: &str, columns: &[&str], rows: &[Vec<String>]) -> Markup {
    html! {
        @if !rows.is_empty() {
            section {
                h2 { (title) }
                table {
                    thead { tr { @for column in columns { th scope="col" { (column) } } } }
                    tbody { @for row in rows { tr { @for cell in row { td { (Seen(cell)) } } } } }
                }
            }
        }
    }
}

pub(super) fn run(run: &Run) -> Markup {
    let requester = run.trigger.requester.as_ref().map_or("nobody", |person| person.as_str());
    let effects = run.effects;
    let rows = [
        ("Run", run.key().to_string()),
        ("Workspace", run.workspace.to_string()),
        ("Asked for by", format!("{requester}, {} {}", run.trigger.kind, run.trigger.reference)),
        ("Plan", run.plan.to_string()),
        ("Began", run.created_at.to_string()),
        ("Ended", format!("{}, after {}", run.completed_at, run.duration_ms)),
        ("Taken over or resumed", run.resumes.to_string()),
        (
            "Effects",
            format!("{} done, {} taken back, {} unknown", effects.done, effects.undone, effects.unknown),
        ),
    ];
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    table("Run", &["", ""], &rows)
}

pub(super) fn steps(bundle: &Bundle) -> Markup {
    let row = |(seq, step): (usize, &crate::bundle::Step)| {
        let kind = match (step.kind, &step.tool) {
            (Kind::Call, Some(tool)) => tool.to_string(),
            (Kind::Call, None) => "call".to_owned(),
            (Kind::Wait, _) => "waits for an event".to_owned(),
            (Kind::Gate, _) => "asks a person".to_owned(),
        };
        let outcomes = bundle.outcomes.iter().filter(|outcome| outcome.seq.index() == seq);
        let ended: Vec<_> = outcomes.map(|outcome| outcome.status.as_str()).collect();
        let ended = if ended.is_empty() { "did not end".to_owned() } else { ended.join(", then ") };
        vec![step.id.to_string(), kind, format!("{:?}", step.blast).to_lowercase(), ended]
    };
    let rows: Vec<_> = bundle.steps.iter().enumerate().map(row).collect();
    table("Steps", &["Step", "What", "Blast radius", "Ended"], &rows)
}

pub(super) fn approvals(bundle: &Bundle) -> Markup {
    let row = |approval: &ApprovalSummary| {
        let votes: Vec<_> = approval.votes.iter().map(words::vote).collect();
        let used = approval.consumed.map_or_else(
            || "not used".to_owned(),
            |consumed| format!("used at {} under fence {}", consumed.at, consumed.fence.0),
        );
        vec![
            approval.step.to_string(),
            words::about(&approval.about),
            approval.status.as_str().to_owned(),
            votes.join("; "),
            used,
        ]
    };
    let mut asked: Vec<_> = bundle.approvals.iter().collect();
    asked.sort_by_key(|approval| approval.asked_at);
    let rows: Vec<_> = asked.into_iter().map(row).collect();
    table("Approvals", &["Step", "About", "Status", "Votes", "Use"], &rows)
}

pub(super) fn receipts(bundle: &Bundle) -> Markup {
    let row = |receipt: &ReceiptSummary| {
        let whose = if receipt.run == bundle.run.run {
            receipt.step.to_string()
        } else {
            format!("{} of run {}", receipt.step, receipt.run)
        };
        vec![
            whose,
            receipt.tool.to_string(),
            receipt.target.clone(),
            words::state(&receipt.state),
            receipt.key.to_string(),
            receipt.action.to_string(),
        ]
    };
    let mut intended: Vec<_> = bundle.receipts.iter().collect();
    intended.sort_by_key(|receipt| receipt.intended_at);
    let rows: Vec<_> = intended.into_iter().map(row).collect();
    table("Effects", &["Step", "Tool", "Target", "State", "Key", "Action"], &rows)
}

pub(super) fn compensations(bundle: &Bundle) -> Markup {
    let lines = bundle.compensations.iter();
    let rows: Vec<_> = lines
        .map(|line| vec![line.step.to_string(), line.status.as_str().to_owned(), line.key.to_string()])
        .collect();
    table("What became of the effects", &["Step", "EffectStatus", "Key"], &rows)
}

pub(super) fn costs(costs: &Costs) -> Markup {
    let steps = costs.steps.iter().map(|cost| (format!("step {}", cost.step), cost.microusd));
    let tools = costs.tools.iter().map(|cost| (format!("tool {}", cost.tool), cost.microusd));
    let models = costs.models.iter().map(|cost| {
        let tokens = format!("{} tokens in, {} out", cost.input_tokens, cost.output_tokens);
        (format!("{} {} ({tokens})", cost.provider, cost.model), cost.microusd)
    });
    let all = std::iter::once(("all".to_owned(), costs.total_microusd));
    let lines = all.chain(steps).chain(tools).chain(models);
    let rows: Vec<_> = lines.map(|(name, microusd)| vec![name, dollars(microusd)]).collect();
    table("Costs", &["Of", "US dollars"], &rows)
}

fn dollars(microusd: u64) -> String {
    format!("{}.{:06}", microusd / 1_000_000, microusd % 1_000_000)
}

pub(super) fn chain(verified: &Verified) -> Markup {
    let bundle = verified.bundle();
    let row = |(event, entry): (&Event, &crate::bundle::Entry)| {
        let step = bundle.step(event.seq).map_or_else(String::new, |step| step.id.to_string());
        vec![
            event.n.to_string(),
            event.at.to_string(),
            event.by.id.clone(),
            step,
            words::event(event),
            entry.hash.short(),
        ]
    };
    let rows: Vec<_> = verified.events().iter().zip(&bundle.chain).map(row).collect();
    table("What happened", &["", "When", "By", "Step", "What", "Hash"], &rows)
}

pub(super) fn log(log: &Log) -> Markup {
    html! {
        section {
            h2 { "Log of runs" }
            p { "Entry " (log.index) " of " (Seen(&log.origin)) ", which had " (log.size) " entries with it." }
            pre { @for line in log.checkpoint.lines() { (Seen(line)) "\n" } }
        }
    }
}
