//! The Slack message of an approval, and every other text that is posted about it.
//!
//! From top to bottom the card shows:
//! 1. a headline: status, environment, workflow
//! 2. workflow, environment, step and run
//! 3. an earlier attempt with an unknown outcome, and an earlier rejection
//! 4. the proposed action, its changes, its declared rollback, and why approval is needed; or the workflow's question ([`subject`])
//! 5. whether it can be undone, what happens if it is interrupted, its maximum cost, and the hash
//! 6. who must approve, who has approved, and who cannot ([`approvers`])
//! 7. when it was requested, is due, and expires
//! 8. the buttons Approve and Reject; once decided, the outcome instead
//!
//! [`text`] has the wording of the domain's values, [`mod@reject_modal`] the modal that asks for a reason. [`reminder`] and
//! [`escalation`] are messages in the thread of the card. A card depends only on the approval: rendering it twice gives the same message. The
//! tests compare whole cards with `tests/cards/*.json`.

mod approvers;
pub mod block;
mod button_token;
mod reject_modal;
mod subject;
mod text;

#[cfg(test)]
mod tests;

use domain::{Action, Approval, Reversibility, Subject, Tier};
use serde_json::{Value, json};

use crate::escape::{self, TextLimit};

pub use button_token::{ButtonToken, InvalidButtonToken};
pub use reject_modal::{CALLBACK_ID, REASON_BLOCK, REASON_INPUT, reject_error, reject_modal};

/// The reason of an earlier rejection.
const HISTORY_UNITS_MAX: usize = 300;

/// The `action_id` of the Approve button.
pub const APPROVE: &str = "countersign.approve";
/// The `action_id` of the Reject button.
pub const REJECT: &str = "countersign.reject";

/// The `text` and `blocks` of the message for `approval`.
pub fn render(approval: &Approval) -> Value {
    let mut blocks = vec![block::header(&title(approval)), block::fields(&location(approval))];
    blocks.extend(history(approval));
    blocks.extend(subject::blocks(&approval.subject, approval.undo));
    blocks.push(block::fields(&risk(approval)));
    blocks.push(block::section(&approvers::required(approval)));
    blocks.push(block::mrkdwn(&times(approval)));
    blocks.push(block::divider());
    blocks.push(if approval.is_open() {
        buttons(approval)
    } else {
        block::section(&approvers::outcome(approval))
    });
    json!({ "text": notice(text::status(approval.status), approval), "blocks": blocks })
}

/// The message in the thread of a card whose decision is nearly due.
pub fn reminder(approval: &Approval) -> Value {
    let message = format!(
        "Not decided yet. The decision is due {}; the approval expires {}.",
        text::local(approval.sla_at),
        text::local(approval.expires_at)
    );
    thread_message(approval, "Reminder", &message)
}

/// The message in the thread of a card whose decision is overdue.
pub fn escalation(approval: &Approval) -> Value {
    let message = format!(
        "The decision was due {} and is overdue. The run waits; the approval expires {}.",
        text::local(approval.sla_at),
        text::local(approval.expires_at)
    );
    thread_message(approval, "Overdue", &message)
}

fn thread_message(approval: &Approval, what: &str, message: &str) -> Value {
    json!({ "text": notice(what, approval), "blocks": [block::mrkdwn(message)] })
}

fn title(approval: &Approval) -> String {
    let title =
        format!("{}: {} · {}", text::status(approval.status), approval.environment, approval.workflow);
    escape::line(&title, TextLimit::plain(block::HEADER_UNITS_MAX))
}

/// The text of the notification.
fn notice(what: &str, approval: &Approval) -> String {
    let notice = format!("{what}, step {} of {}", approval.step, approval.workflow);
    escape::mrkdwn(&notice, TextLimit::plain(block::SECTION_UNITS_MAX))
}

fn location(approval: &Approval) -> [(&'static str, String); 4] {
    [
        ("Workflow", approval.workflow.to_string()),
        ("Environment", approval.environment.to_string()),
        ("Step", format!("{} (step {})", approval.step, u32::from(approval.seq.0) + 1)),
        ("Run", approval.run.to_string()),
    ]
}

/// What happened before this request, which the approver must know.
fn history(approval: &Approval) -> Option<Value> {
    let attempted = approval
        .attempted_at
        .map(|at| format!("This action may already have happened: it was attempted at {}.", text::utc(at)));
    let rejected = approval.rejected.as_ref().map(|rejection| {
        let reason = match escape::line(&rejection.reason, TextLimit::plain(HISTORY_UNITS_MAX)) {
            reason if reason.is_empty() => "no reason given".to_owned(),
            reason => reason,
        };
        format!(
            "An earlier request was rejected by {} at {}: {reason}",
            rejection.by,
            text::utc(rejection.at)
        )
    });
    let lines: Vec<_> = attempted.into_iter().chain(rejected).collect();
    (!lines.is_empty()).then(|| block::section(&format!("Before this request\n{}", lines.join("\n"))))
}

fn risk(approval: &Approval) -> Vec<(&'static str, String)> {
    let hash = ("Hash", approval.subject.hash().short());
    let Subject::Action { action, .. } = &approval.subject else { return vec![hash] };
    vec![
        ("Can it be undone?", text::reversibility(&action.reversibility)),
        ("If interrupted", text::class(action.class).to_owned()),
        ("Maximum cost", action.estimate_microusd.map_or("not metered".to_owned(), text::money)),
        hash,
    ]
}

fn times(approval: &Approval) -> String {
    let Approval { requested_at, sla_at, expires_at, .. } = approval;
    let [requested, due, expires] = [requested_at, sla_at, expires_at].map(|at| text::local(*at));
    format!("Requested {requested} · due {due} · expires {expires}")
}

fn buttons(approval: &Approval) -> Value {
    let token = ButtonToken::for_approval(approval).to_string();
    let mut approve = block::button(APPROVE, "primary", "Approve", &token);
    if let Some(warning) = warning(approval) {
        approve["confirm"] = block::confirm("Approve this action?", warning, "Approve");
    }
    let reject = block::button(REJECT, "danger", "Reject…", &token);
    json!({ "type": "actions", "block_id": "countersign.decision", "elements": [approve, reject] })
}

/// The confirmation text for an approval with high stakes.
fn warning(approval: &Approval) -> Option<&'static str> {
    match &approval.subject {
        Subject::Action { action, .. } if is_final(action) => Some("This cannot be undone."),
        _ if approval.requirement.tier == Tier::High => Some("High risk: a mistake can cause an outage."),
        _ => None,
    }
}

fn is_final(action: &Action) -> bool {
    action.destructive || matches!(action.reversibility, Reversibility::Irreversible(_))
}
