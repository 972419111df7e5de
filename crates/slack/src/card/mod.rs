//! An approval as a Slack message.
//!
//! Whoever is asked sees what would change, why policy asks, whether it can be taken back and what happens if
//! it is interrupted, before there is a button to press. When the approval is decided, the same message says
//! so and has no buttons. The card of an approval depends on the approval alone: rendering it twice gives
//! the same message.

mod asked;
pub mod block;
mod modal;
mod people;
mod thread;
mod token;
mod words;

#[cfg(test)]
mod tests;

use domain::{Action, Approval, Reversibility, Subject, Tier};
use serde_json::{Value, json};

use crate::escape::{self, Bound};

pub use modal::{CALLBACK_ID, REASON_BLOCK, REASON_INPUT, modal, refused};
pub use thread::{escalation, reminder};
pub use token::{InvalidToken, Token};

/// The id of the button that says yes.
pub const APPROVE: &str = "countersign.approve";
/// The id of the button that says no.
pub const REJECT: &str = "countersign.reject";

/// `text` and `blocks` of the message that shows `approval` as it stands.
pub fn render(approval: &Approval) -> Value {
    let mut blocks = vec![block::header(&title(approval)), block::fields(&whereabouts(approval))];
    blocks.extend(asked::blocks(&approval.subject, approval.undo));
    blocks.push(block::fields(&stakes(approval)));
    blocks.push(block::section(&people::wanted(approval)));
    blocks.push(block::mrkdwn(&times(approval)));
    blocks.push(block::divider());
    blocks.push(if approval.is_open() {
        buttons(approval)
    } else {
        block::section(&people::outcome(approval))
    });
    json!({ "text": notice(words::status(approval.status), approval), "blocks": blocks })
}

fn title(approval: &Approval) -> String {
    let title = format!(
        "{}: {} · {}",
        words::status(approval.status),
        words::environment(approval.environment),
        approval.workflow
    );
    escape::line(&title, Bound::plain(block::HEADER_UNITS_MAX))
}

/// The line that stands in a notification, where Slack formats.
fn notice(what: &str, approval: &Approval) -> String {
    let notice = format!("{what}, step {} of {}", approval.step, approval.workflow);
    escape::mrkdwn(&notice, Bound::plain(block::SECTION_UNITS_MAX))
}

fn whereabouts(approval: &Approval) -> [(&'static str, String); 4] {
    [
        ("Workflow", approval.workflow.to_string()),
        ("Environment", words::environment(approval.environment).to_owned()),
        ("Step", format!("{} (number {})", approval.step, u32::from(approval.seq.0) + 1)),
        ("Run", approval.run.to_string()),
    ]
}

/// What can go wrong, and what people bind themselves to.
fn stakes(approval: &Approval) -> Vec<(&'static str, String)> {
    let hash = ("Hash", approval.subject.hash().short());
    let Subject::Action { action, .. } = &approval.subject else { return vec![hash] };
    vec![
        ("Can it be taken back?", words::reversibility(&action.reversibility)),
        ("If it is interrupted", words::class(action.class).to_owned()),
        ("Cost at most", action.estimate_microusd.map_or("not metered".to_owned(), words::money)),
        hash,
    ]
}

fn times(approval: &Approval) -> String {
    let Approval { asked_at, sla_at, expires_at, .. } = approval;
    let [asked, due, lapses] = [asked_at, sla_at, expires_at].map(|at| words::local(*at));
    format!("Asked {asked} · answer due {due} · lapses {lapses}")
}

fn buttons(approval: &Approval) -> Value {
    let token = Token::of(approval).to_string();
    let mut approve = block::button(APPROVE, "primary", "Approve", &token);
    if let Some(warning) = warning(approval) {
        approve["confirm"] = block::confirm("Are you sure?", warning, "Approve");
    }
    let reject = block::button(REJECT, "danger", "Reject…", &token);
    json!({ "type": "actions", "block_id": "countersign.answer", "elements": [approve, reject] })
}

/// A yes that is hard to make good again is asked for twice.
fn warning(approval: &Approval) -> Option<&'static str> {
    match &approval.subject {
        Subject::Action { action, .. } if is_final(action) => Some("This cannot be taken back."),
        _ if approval.demand.tier == Tier::High => Some("A mistake here is an outage."),
        _ => None,
    }
}

fn is_final(action: &Action) -> bool {
    action.destructive || matches!(action.reversibility, Reversibility::Irreversible(_))
}
