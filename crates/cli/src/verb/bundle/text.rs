//! A verified bundle on a page, for people.

use domain::{Reversibility, StepSeq, Vote};
use evidence::bundle::{About, ApprovalSummary, Bundle, Costs, Kind, ReceiptSummary, State, Step};
use evidence::{PublicKey, Verified};

use views::counted;
use views::table::{indented, table};
use views::time::{length, moment};

/// The run, its steps, approvals, effects and costs.
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
    let requester = run.trigger.requester.as_ref().map_or("nobody", |person| person.as_str());
    let environment = format!("{:?}", run.environment).to_lowercase();
    let lines = [
        ("run", run.key().to_string()),
        ("workflow", format!("{}, version {}, {environment}", run.workflow, run.version)),
        ("status", format!("{} after {}", run.status, length(run.duration_ms))),
        ("started", format!("{} for {requester}, by {}", moment(run.created_at), run.trigger.kind)),
        ("ended", moment(run.completed_at)),
        (
            "chain",
            format!("{}, verified; head {}", counted(verified.events().len(), "event"), run.head.short()),
        ),
        ("log", format!("entry {} of {}", log.index, log.origin)),
        ("signed by", key.id().to_string()),
    ];
    lines.map(|(name, value)| format!("{name:<10}{value}\n")).concat()
}

fn steps(bundle: &Bundle) -> String {
    let row = |(seq, step): (StepSeq, &Step)| {
        let ended = bundle.outcomes.iter().filter(|outcome| outcome.seq == seq);
        let ended: Vec<_> = ended.map(|outcome| outcome.status.to_string()).collect();
        let ended = if ended.is_empty() { "did not end".to_owned() } else { ended.join(", then ") };
        [(seq.index() + 1).to_string(), step.id.to_string(), what(step), ended]
    };
    let rows: Vec<_> = (0_u16..).map(StepSeq).zip(&bundle.steps).map(row).collect();
    table(["#", "STEP", "TOOL", "ENDED"], &rows)
}

fn what(step: &Step) -> String {
    match (step.kind, &step.tool) {
        (_, Some(tool)) => tool.to_string(),
        (Kind::Call, None) => "call".to_owned(),
        (Kind::Wait, None) => "wait.event".to_owned(),
        (Kind::Gate, None) => "approval.gate".to_owned(),
    }
}

fn approvals(bundle: &Bundle) -> String {
    let mut asked: Vec<&ApprovalSummary> = bundle.approvals.iter().collect();
    asked.sort_by_key(|approval| approval.asked_at);
    asked.into_iter().map(approval_text).collect()
}

fn approval_text(approval: &ApprovalSummary) -> String {
    let about = match &approval.about {
        About::Question => "a question of the workflow".to_owned(),
        About::Action { tool, target, .. } => format!("{tool} on {target}"),
    };
    let back = if approval.undo { ", to take it back" } else { "" };
    let votes: String = approval.votes.iter().map(vote).collect();
    format!("{}: {about}{back}; {}\n{votes}", approval.step, approval.status.as_str())
}

fn vote(vote: &Vote) -> String {
    let word = if vote.approve { "yes" } else { "no" };
    let reason = if vote.reason.is_empty() { String::new() } else { format!(": {}", vote.reason) };
    format!("  {} said {word} at {}{reason}\n", vote.person, moment(vote.at))
}

fn effects(bundle: &Bundle) -> String {
    let mut receipts: Vec<&ReceiptSummary> = bundle.receipts.iter().collect();
    receipts.sort_by_key(|receipt| receipt.intended_at);
    let row = |receipt: &ReceiptSummary| {
        [
            step_of(bundle, receipt),
            receipt.tool.to_string(),
            receipt.target.clone(),
            state(&receipt.state),
            undo(bundle, receipt),
        ]
    };
    let rows: Vec<_> = receipts.into_iter().map(row).collect();
    if rows.is_empty() {
        String::new()
    } else {
        table(["STEP", "TOOL", "ON", "STATE", "TO TAKE IT BACK"], &rows)
    }
}

fn step_of(bundle: &Bundle, receipt: &ReceiptSummary) -> String {
    let whose = if receipt.run == bundle.run.run { String::new() } else { format!(" of {}", receipt.run) };
    let back = if receipt.undo { " (taking it back)" } else { "" };
    format!("{}{whose}{back}", receipt.step)
}

fn state(state: &State) -> String {
    match state {
        State::Intent => "nobody knows whether it happened".to_owned(),
        State::Done { at, .. } => format!("done {}", moment(*at)),
        State::Failed { code, .. } => format!("did not happen: {code}"),
    }
}

/// How the effect can be taken back, if it can, or that it was.
fn undo(bundle: &Bundle, receipt: &ReceiptSummary) -> String {
    let (true, State::Done { inverse, .. }) = (!receipt.undo, &receipt.state) else { return String::new() };
    let ReceiptSummary { run, seq, reversibility, .. } = receipt;
    if *run != bundle.run.run {
        return format!("`run undo {run}`: that run did it");
    }
    if bundle.outcomes.iter().any(|outcome| outcome.undo && outcome.seq == *seq) {
        return "it was taken back".to_owned();
    }
    let named = bundle.step(*seq).is_some_and(|step| step.rollback);
    match (inverse, reversibility) {
        (Some(_), _) => format!("`run undo {run}`, as its receipt says"),
        (None, _) if named => format!("`run undo {run}`, as the workflow says"),
        (None, Reversibility::Irreversible(why)) => format!("it cannot be: {why}"),
        (None, Reversibility::NoEffect) => "there is nothing to take back".to_owned(),
        (None, Reversibility::Inverse | Reversibility::Compensable) => {
            "neither its receipt nor the workflow says how".to_owned()
        }
    }
}

fn costs(costs: &Costs) -> String {
    if costs.total_microusd == 0 && costs.models.is_empty() {
        return String::new();
    }
    let all = std::iter::once(("all".to_owned(), costs.total_microusd));
    let steps = costs.steps.iter().map(|cost| (format!("step {}", cost.step), cost.microusd));
    let models = costs.models.iter().map(|cost| {
        let tokens = format!("{} tokens in, {} out", cost.input_tokens, cost.output_tokens);
        (format!("{} {}, {tokens}", cost.provider, cost.model), cost.microusd)
    });
    let rows: Vec<_> = all.chain(steps).chain(models).map(|(of, cost)| [of, dollars(cost)]).collect();
    table(["OF", "US DOLLARS"], &rows)
}

fn dollars(microusd: u64) -> String {
    format!("{}.{:06}", microusd / 1_000_000, microusd % 1_000_000)
}
