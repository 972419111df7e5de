//! The Slack message of an approval, and every other text that is posted about it.
//!
//! From top to bottom the card shows:
//! 1. a headline: status, environment, workflow
//! 2. workflow, environment, step and run
//! 3. an earlier attempt with an unknown outcome, and an earlier rejection
//! 4. the proposed action, its [`fields`], its declared rollback, and why approval is needed; or the workflow's question ([`subject`])
//! 5. whether it can be undone, what happens if it is interrupted, its maximum cost, and the hash
//! 6. who must approve, who has approved, and who cannot ([`approvers`])
//! 7. when it was requested, is due, and expires
//! 8. the buttons Approve and Reject; once decided, the outcome instead
//!
//! Each part of the subject has a space of its own. A card that does not show the whole subject names what is cut, and
//! has a link to the console in place of Approve: see [`incomplete`]. [`render_whole`] shows everything.
//!
//! [`text`] has the wording of the domain's values, [`mod@reject_modal`] the modal that asks for a reason. [`reminder`] and
//! [`escalation`] are messages in the thread of the card. A card depends only on the approval and the address of the
//! console: rendering it twice gives the same message. The tests compare whole cards with `tests/cards/*.json`.

mod approvers;
pub mod block;
mod button_token;
mod fields;
mod reject_modal;
mod subject;
mod text;

#[cfg(test)]
mod tests;

use domain::approval::Assurance;
use domain::money::money;
use domain::{Action, Approval, Reversibility, Subject, Tier};
use serde_json::{Value, json};
use url::Url;

use crate::escape::{self, TextLimit};

pub use button_token::{ButtonToken, InvalidButtonToken};
pub use reject_modal::{CALLBACK_ID, REASON_BLOCK, REASON_INPUT, reject_error, reject_modal};

/// The reason of an earlier rejection.
const HISTORY_UNITS_MAX: usize = 300;

/// The `action_id` of the Approve button.
pub const APPROVE: &str = "countersign.approve";
/// The `action_id` of the Reject button.
pub const REJECT: &str = "countersign.reject";

/// The `action_id` of the link to the console.
pub const CONSOLE: &str = "countersign.console";

/// The names of the parts that a card does not show in full; further ones are only counted.
const CUT_UNITS_MAX: usize = 300;
const CUT_NAME_UNITS_MAX: usize = 80;

/// How much of each part of the subject a message shows.
#[derive(Debug, Clone, Copy)]
struct CardLimits {
    target: usize,
    /// All changes and arguments together.
    fields: usize,
    /// An approver can compare this many values.
    field_count: usize,
    /// The longest change or argument.
    field: usize,
    /// The declared rollback.
    rollback: usize,
    question: usize,
    /// Why the action cannot be undone.
    why: usize,
}

/// So that the message stays within [`block::MESSAGE_UNITS_MAX`].
const SLACK_LIMITS: CardLimits = CardLimits {
    target: 400,
    fields: 3_700,
    field_count: 16,
    field: block::SECTION_UNITS_MAX,
    rollback: 900,
    question: block::SECTION_UNITS_MAX - 30,
    why: 300,
};

const UNLIMITED: CardLimits = CardLimits {
    target: usize::MAX,
    fields: usize::MAX,
    field_count: usize::MAX,
    field: usize::MAX,
    rollback: usize::MAX,
    question: usize::MAX,
    why: usize::MAX,
};

/// The `text` and `blocks` of the Slack message for `approval`. `console` is the address of the console.
pub fn render(approval: &Approval, console: Option<&Url>) -> Value {
    render_in(&SLACK_LIMITS, approval, console)
}

/// The same without Slack's limits: every part of the subject is shown in full.
pub fn render_whole(approval: &Approval) -> Value {
    render_in(&UNLIMITED, approval, None)
}

/// If the card of `approval` does not show the whole subject: what is cut, and where to approve it.
pub fn incomplete(approval: &Approval, console: Option<&Url>) -> Option<String> {
    let shown = subject::render(&approval.subject, approval.rollback, &SLACK_LIMITS);
    (!shown.cut.is_empty()).then(|| incomplete_text(approval, &shown.cut, console))
}

fn render_in(limits: &CardLimits, approval: &Approval, console: Option<&Url>) -> Value {
    let shown = subject::render(&approval.subject, approval.rollback, limits);
    let mut blocks = vec![block::header(&title(approval)), block::fields(&location(approval))];
    blocks.extend(history(approval));
    blocks.extend(shown.blocks);
    blocks.push(block::fields(&risk(approval, limits)));
    blocks.push(block::section(&approvers::required(approval)));
    blocks.push(block::mrkdwn(&times(approval)));
    blocks.push(block::divider());
    if approval.is_open() && !shown.cut.is_empty() {
        blocks.push(block::section(&incomplete_text(approval, &shown.cut, console)));
    }
    blocks.extend(if approval.is_open() {
        buttons(approval, shown.cut.is_empty(), console)
    } else {
        Some(block::section(&approvers::outcome(approval)))
    });
    json!({ "text": notice(text::status(approval.status), approval), "blocks": blocks })
}

fn incomplete_text(approval: &Approval, cut: &[String], console: Option<&Url>) -> String {
    let link = console_link(approval, console).unwrap_or_else(|| format!("approval {}", approval.id));
    format!(
        "This card does not show everything. Not shown in full: {}.\nRead and approve the complete action in the \
         console: {link}",
        join_names(cut)
    )
}

/// The first names, and the number of the others.
fn join_names(names: &[String]) -> String {
    let mut shown: Vec<String> = Vec::new();
    let mut left = CUT_UNITS_MAX;
    for name in names {
        let name = escape::line(name, TextLimit::plain(CUT_NAME_UNITS_MAX));
        let Some(rest) = left.checked_sub(escape::units(&name)) else { break };
        left = rest;
        shown.push(name);
    }
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

fn console_link(approval: &Approval, console: Option<&Url>) -> Option<String> {
    Some(console?.join(&format!("/approvals/{}", approval.id)).ok()?.to_string())
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
    escape::line(&notice, TextLimit::plain(block::SECTION_UNITS_MAX))
}

fn location(approval: &Approval) -> Vec<(&'static str, String)> {
    let connection = match &approval.subject {
        Subject::Action { action, .. } => action.connection.as_ref(),
        Subject::Question { .. } => None,
    };
    let connection =
        connection.map(|on| ("Connection", format!("{} ({}, {})", on.name, on.kind, on.environment)));
    let location = [
        ("Workflow", approval.workflow.to_string()),
        ("Environment", approval.environment.to_string()),
        ("Step", format!("{} (step {})", approval.step, u32::from(approval.seq.0) + 1)),
        ("Run", approval.run.to_string()),
    ];
    location.into_iter().chain(connection).collect()
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

fn risk(approval: &Approval, limits: &CardLimits) -> Vec<(&'static str, String)> {
    let hash = ("Hash", approval.subject.hash().short());
    let Subject::Action { action, .. } = &approval.subject else { return vec![hash] };
    let cost = action.estimate_microusd.map(|estimate| ("Maximum cost", money(estimate)));
    let undo = ("Can it be undone?", text::reversibility(&action.reversibility, limits.why));
    let interrupted = ("If interrupted", text::class(action.class).to_owned());
    [Some(undo), Some(interrupted), cost, Some(hash)].into_iter().flatten().collect()
}

fn times(approval: &Approval) -> String {
    let Approval { requested_at, sla_at, expires_at, .. } = approval;
    let [requested, due, expires] = [requested_at, sla_at, expires_at].map(|at| text::local(*at));
    format!("Requested {requested} · due {due} · expires {expires}")
}

/// Approve, or the link to the console if the card is not complete; and Reject. Only the link if votes in Slack do not
/// count; nothing if there is no console either.
fn buttons(approval: &Approval, complete: bool, console: Option<&Url>) -> Option<Value> {
    let token = ButtonToken::for_approval(approval).to_string();
    let is_accepted = approval.requirement.assurance.accepts(Assurance::Slack);
    let first = if complete && is_accepted {
        Some(approve_button(approval, &token))
    } else {
        console_link(approval, console).map(|link| block::link(CONSOLE, "Open in the console", &link))
    };
    let reject = is_accepted.then(|| block::button(REJECT, "danger", "Reject…", &token));
    let elements: Vec<Value> = first.into_iter().chain(reject).collect();
    let block = json!({ "type": "actions", "block_id": "countersign.decision", "elements": elements });
    (!elements.is_empty()).then_some(block)
}

fn approve_button(approval: &Approval, token: &str) -> Value {
    let mut approve = block::button(APPROVE, "primary", "Approve", token);
    if let Some(warning) = warning(approval) {
        approve["confirm"] = block::confirm("Approve this action?", warning, "Approve");
    }
    approve
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
