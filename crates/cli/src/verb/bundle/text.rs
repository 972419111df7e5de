//! A verified bundle as text.

use domain::{Reversibility, StepSeq, Vote};
use evidence::bundle::{
    ApprovalSummary, BundleStep, BundleStepKind, Costs, EvidenceBundle, ReceiptStatus, ReceiptSummary,
    SubjectSummary,
};
use evidence::{PublicKey, Verified};

use views::counted;
use views::table::{indented, table};
use views::time::{duration, timestamp};

pub(super) fn text(verified: &Verified, key: &PublicKey) -> String {
    let bundle = verified.bundle();
    [
        heading(verified, key),
        section("steps", &steps(bundle)),
        section("approvals", &approvals(bundle)),
        section("effects", &effects(bundle)),
        section("costs", &costs(&bundle.costs)),
    ]
    .concat()
}

fn section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("\n{title}\n{}", indented(body, 2)) }
}

fn heading(verified: &Verified, key: &PublicKey) -> String {
    let (run, log) = (&verified.bundle().run, &verified.bundle().log);
    let requester = run.trigger.requester.as_ref().map_or("no user", |person| person.as_str());
    let environment = format!("{:?}", run.environment).to_lowercase();
    let lines = [
        ("run", run.key().to_string()),
        ("workflow", format!("{}, version {}, {environment}", run.workflow, run.version)),
        ("status", format!("{} after {}", run.status, duration(run.duration_ms))),
        ("started", format!("{} for {requester}, by {}", timestamp(run.created_at), run.trigger.kind)),
        ("ended", timestamp(run.completed_at)),
        (
            "chain",
            format!("{}, verified; head {}", counted(verified.events().len(), "event"), run.head.short()),
        ),
        ("log", format!("entry {} of {}", log.index, log.origin)),
        ("signed by", key.id().to_string()),
    ];
    lines.map(|(name, value)| format!("{name:<10}{value}\n")).concat()
}

fn steps(bundle: &EvidenceBundle) -> String {
    let row = |(seq, step): (StepSeq, &BundleStep)| {
        let results = bundle.outcomes.iter().filter(|outcome| outcome.seq == seq);
        let results: Vec<_> = results.map(|outcome| outcome.status.to_string()).collect();
        let results = if results.is_empty() { "not finished".to_owned() } else { results.join(", then ") };
        [(seq.index() + 1).to_string(), step.id.to_string(), tool_text(step), results]
    };
    let rows: Vec<_> = (0_u16..).map(StepSeq).zip(&bundle.steps).map(row).collect();
    table(["#", "STEP", "TOOL", "RESULT"], &rows)
}

fn tool_text(step: &BundleStep) -> String {
    match (step.kind, &step.tool) {
        (_, Some(tool)) => tool.to_string(),
        (BundleStepKind::Call, None) => "call".to_owned(),
        (BundleStepKind::Wait, None) => "wait.event".to_owned(),
        (BundleStepKind::Gate, None) => "approval.gate".to_owned(),
    }
}

fn approvals(bundle: &EvidenceBundle) -> String {
    let mut sorted: Vec<&ApprovalSummary> = bundle.approvals.iter().collect();
    sorted.sort_by_key(|approval| approval.requested_at);
    sorted.into_iter().map(approval_text).collect()
}

fn approval_text(approval: &ApprovalSummary) -> String {
    let about = match &approval.subject {
        SubjectSummary::Question => "a question in the workflow".to_owned(),
        SubjectSummary::Action { tool, target, .. } => format!("{tool} on {target}"),
    };
    let rollback = if approval.rollback { ", rollback" } else { "" };
    let votes: String = approval.votes.iter().map(vote_text).collect();
    format!("{}: {about}{rollback}; {}\n{votes}", approval.step, approval.status.as_str())
}

fn vote_text(vote: &Vote) -> String {
    let word = if vote.approve { "approved" } else { "rejected" };
    let reason = if vote.reason.is_empty() { String::new() } else { format!(": {}", vote.reason) };
    format!("  {} {word} at {}{reason}\n", vote.person, timestamp(vote.at))
}

fn effects(bundle: &EvidenceBundle) -> String {
    let mut receipts: Vec<&ReceiptSummary> = bundle.receipts.iter().collect();
    receipts.sort_by_key(|receipt| receipt.intended_at);
    let row = |receipt: &ReceiptSummary| {
        [
            step_text(bundle, receipt),
            receipt.tool.to_string(),
            receipt.target.clone(),
            state_text(&receipt.state),
            undo_text(bundle, receipt),
        ]
    };
    let rows: Vec<_> = receipts.into_iter().map(row).collect();
    if rows.is_empty() { String::new() } else { table(["STEP", "TOOL", "TARGET", "STATE", "UNDO"], &rows) }
}

fn step_text(bundle: &EvidenceBundle, receipt: &ReceiptSummary) -> String {
    let other_run =
        if receipt.run == bundle.run.run { String::new() } else { format!(" of {}", receipt.run) };
    let rollback = if receipt.rollback { " (rollback)" } else { "" };
    format!("{}{other_run}{rollback}", receipt.step)
}

fn state_text(state: &ReceiptStatus) -> String {
    match state {
        ReceiptStatus::Intent => "outcome unknown".to_owned(),
        ReceiptStatus::Done { at, .. } => format!("done {}", timestamp(*at)),
        ReceiptStatus::Failed { code, .. } => format!("did not happen: {code}"),
    }
}

/// How the effect can be undone, or that it was rolled back.
fn undo_text(bundle: &EvidenceBundle, receipt: &ReceiptSummary) -> String {
    let (true, ReceiptStatus::Done { inverse, .. }) = (!receipt.rollback, &receipt.state) else {
        return String::new();
    };
    let ReceiptSummary { run, seq, reversibility, .. } = receipt;
    if *run != bundle.run.run {
        return format!("`run undo {run}`, the run that caused it");
    }
    if bundle.outcomes.iter().any(|outcome| outcome.rollback && outcome.seq == *seq) {
        return "rolled back".to_owned();
    }
    let has_rollback = bundle.step(*seq).is_some_and(|step| step.rollback);
    match (inverse, reversibility) {
        (Some(_), _) => format!("`run undo {run}`, from its receipt"),
        (None, _) if has_rollback => format!("`run undo {run}`, as the workflow defines"),
        (None, Reversibility::Irreversible(why)) => format!("impossible: {why}"),
        (None, Reversibility::NoEffect) => "nothing to undo".to_owned(),
        (None, Reversibility::Inverse | Reversibility::Compensable) => {
            "not defined by its receipt or the workflow".to_owned()
        }
    }
}

fn costs(costs: &Costs) -> String {
    if costs.total_microusd == 0 && costs.models.is_empty() {
        return String::new();
    }
    let all = std::iter::once(("total".to_owned(), costs.total_microusd));
    let steps = costs.steps.iter().map(|cost| (format!("step {}", cost.step), cost.microusd));
    let models = costs.models.iter().map(|cost| {
        let tokens = format!("{} tokens in, {} out", cost.input_tokens, cost.output_tokens);
        (format!("{} {}, {tokens}", cost.provider, cost.model), cost.microusd)
    });
    let rows: Vec<_> = all.chain(steps).chain(models).map(|(item, cost)| [item, dollars(cost)]).collect();
    table(["ITEM", "US DOLLARS"], &rows)
}

fn dollars(microusd: u64) -> String {
    format!("{}.{:06}", microusd / 1_000_000, microusd % 1_000_000)
}
