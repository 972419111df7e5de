//! The messages in the thread of a card that is not decided in time.

use domain::Approval;
use serde_json::{Value, json};

use super::{block, notice, text};

pub fn reminder(approval: &Approval) -> Value {
    let message = format!(
        "Not decided yet. The decision is due {}; the approval expires {}.",
        text::local(approval.sla_at),
        text::local(approval.expires_at)
    );
    thread_message(approval, "Reminder", &message)
}

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
