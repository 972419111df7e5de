//! What is said under a card when nobody answers.

use domain::Approval;
use serde_json::{Value, json};

use super::{block, notice, words};

/// People have not answered yet.
pub fn reminder(approval: &Approval) -> Value {
    let text = format!(
        "Still waiting for an answer, which is due {}. Without one the question lapses {}.",
        words::local(approval.sla_at),
        words::local(approval.expires_at)
    );
    said(approval, "Reminder", &text)
}

/// The answer is overdue.
pub fn escalation(approval: &Approval) -> Value {
    let text = format!(
        "The answer was due {} and is overdue. Nothing happens without one; the question lapses {}.",
        words::local(approval.sla_at),
        words::local(approval.expires_at)
    );
    said(approval, "Overdue", &text)
}

fn said(approval: &Approval, what: &str, text: &str) -> Value {
    json!({ "text": notice(what, approval), "blocks": [block::mrkdwn(text)] })
}
