//! The subject of an approval: the proposed action with its changes, or the workflow's question.

use domain::plan::Call;
use domain::{Action, FieldChange, Reason, Subject};
use serde_json::Value;

use super::block;
use crate::escape::{self, TextLimit};

/// All changes together, so that the message stays within its limit.
const CHANGES_UNITS_MAX: usize = 4_200;

/// An approver can compare a dozen values; further changes are only counted.
const CHANGES_MAX: usize = 12;

const TARGET_UNITS_MAX: usize = 400;

/// The fields of a declared rollback.
const ROLLBACK_UNITS_MAX: usize = 900;

/// All reasons together; a policy message has at most 256 characters.
const REASONS_UNITS_MAX: usize = 1_300;

/// One section, without its label.
const QUESTION_UNITS_MAX: usize = block::SECTION_UNITS_MAX - 20;

pub(super) fn blocks(subject: &Subject, undo: bool) -> Vec<Value> {
    match subject {
        Subject::Question { message } => {
            let message = escape::text(message, TextLimit::hashed(QUESTION_UNITS_MAX));
            vec![block::section(&format!("Question from the workflow\n{message}"))]
        }
        Subject::Action { action, verdict, rollback } => {
            let mut blocks = vec![block::section(&summary(action, undo))];
            blocks.extend(changes(action));
            blocks.extend(rollback.as_ref().map(declared_rollback));
            blocks.extend(rationale(&verdict.reasons));
            blocks
        }
    }
}

fn summary(action: &Action, undo: bool) -> String {
    let prefix = if undo { "Rollback: " } else { "" };
    let destroys = if action.destructive { "\nThis action is destructive." } else { "" };
    let target = escape::line(&action.target, TextLimit::hashed(TARGET_UNITS_MAX));
    format!("{prefix}{} on {target}{destroys}", action.tool)
}

/// The rollback that the workflow declares. Its expressions are evaluated, and it is approved, only when it is needed.
fn declared_rollback(call: &Call) -> Value {
    let fields = escape::line(&call.with.to_string(), TextLimit::hashed(ROLLBACK_UNITS_MAX));
    block::section(&format!("Declared rollback, if the run fails later\n{} with {fields}", call.tool))
}

/// The changed fields. If the tool does not know them, its arguments.
fn changes(action: &Action) -> Vec<Value> {
    if action.changes.is_empty() {
        let fields =
            escape::line(&action.fields.to_string(), TextLimit::hashed(block::SECTION_UNITS_MAX - 16));
        return vec![block::section(&format!("Arguments\n{fields}"))];
    }
    let shown = action.changes.len().min(CHANGES_MAX);
    let each = (CHANGES_UNITS_MAX / shown).min(block::SECTION_UNITS_MAX);
    let mut blocks: Vec<_> =
        action.changes.iter().take(shown).map(|change| block::section(&change_line(change, each))).collect();
    let more = action.changes.len() - shown;
    if more > 0 {
        blocks.push(block::section(&format!("… {more} more fields change; the hash covers all of them")));
    }
    blocks
}

/// `field: before → after`. Values are JSON, so a string with an arrow, a quote or a line break cannot imitate another
/// change.
fn change_line(change: &FieldChange, units_max: usize) -> String {
    let part = TextLimit::hashed((units_max - 16) / 3);
    let before = change.before.as_ref().map_or("(unknown)".to_owned(), |value| value_text(value, part));
    format!("{}: {before} → {}", escape::line(&change.field, part), value_text(&change.after, part))
}

fn value_text(value: &Value, bound: TextLimit) -> String {
    escape::line(&value.to_string(), bound)
}

/// The policy rules that require approval.
fn rationale(because: &[Reason]) -> Option<Value> {
    let each = REASONS_UNITS_MAX / because.len().max(1);
    let lines: Vec<_> = because.iter().map(|reason| reason_line(reason, each.min(450))).collect();
    (!lines.is_empty()).then(|| block::section(&format!("Why approval is needed\n{}", lines.join("\n"))))
}

fn reason_line(reason: &Reason, units_max: usize) -> String {
    let place = match (&reason.file, reason.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    let sentence = format!("{}: {}{place}", reason.rule, reason.message);
    format!("• {}", escape::line(&sentence, TextLimit::plain(units_max - 2)))
}
