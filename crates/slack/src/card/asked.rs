//! What is asked: the change, field by field, or the question.

use domain::{Action, FieldChange, Reason, Subject};
use serde_json::Value;

use super::block;
use crate::escape::{self, Bound};

/// For all that is asked, so that the whole message stays within its limit.
const ASKED_UNITS_MAX: usize = 4_200;

/// A person compares a dozen values; the others are counted.
const CHANGES_MAX: usize = 12;

/// The line that names a tool and its target.
const TARGET_UNITS_MAX: usize = 400;

/// All reasons together; a policy's sentences have 256 characters each at most.
const REASONS_UNITS_MAX: usize = 1_300;

/// A question may use what an action has for its changes, within the limit of one section.
const QUESTION_UNITS_MAX: usize = block::SECTION_UNITS_MAX - 20;

/// The blocks that show `subject`.
pub(super) fn blocks(subject: &Subject, undo: bool) -> Vec<Value> {
    match subject {
        Subject::Question { message } => {
            let message = escape::text(message, Bound::hashed(QUESTION_UNITS_MAX));
            vec![block::section(&format!("The workflow asks\n{message}"))]
        }
        Subject::Action { action, verdict } => {
            let mut blocks = vec![block::section(&summary(action, undo))];
            blocks.extend(changes(action));
            blocks.extend(rationale(&verdict.because));
            blocks
        }
    }
}

fn summary(action: &Action, undo: bool) -> String {
    let what = if undo { "To take a step back, " } else { "" };
    let destroys = if action.destructive { "\nIt destroys something." } else { "" };
    let target = escape::line(&action.target, Bound::hashed(TARGET_UNITS_MAX));
    format!("{what}{} on {target}{destroys}", action.tool)
}

/// The proposed writes; if the tool cannot tell them, all that it is called with.
fn changes(action: &Action) -> Vec<Value> {
    if action.changes.is_empty() {
        let fields = escape::line(&action.fields.to_string(), Bound::hashed(block::SECTION_UNITS_MAX - 16));
        return vec![block::section(&format!("Called with\n{fields}"))];
    }
    let shown = action.changes.len().min(CHANGES_MAX);
    let each = (ASKED_UNITS_MAX / shown).min(block::SECTION_UNITS_MAX);
    let mut blocks: Vec<_> =
        action.changes.iter().take(shown).map(|change| block::section(&one(change, each))).collect();
    let more = action.changes.len() - shown;
    if more > 0 {
        blocks.push(block::section(&format!("… {more} more fields change; the hash covers all of them")));
    }
    blocks
}

/// `field: before → after`. Values are written as JSON, so that a text which holds an arrow, a quote or a
/// line break cannot pass for another change.
fn one(change: &FieldChange, units_max: usize) -> String {
    let part = Bound::hashed((units_max - 16) / 3);
    let before = change.before.as_ref().map_or("(not known)".to_owned(), |value| shown(value, part));
    format!("{}: {before} → {}", escape::line(&change.field, part), shown(&change.after, part))
}

fn shown(value: &Value, bound: Bound) -> String {
    escape::line(&value.to_string(), bound)
}

/// The rules that led here.
fn rationale(because: &[Reason]) -> Option<Value> {
    let each = REASONS_UNITS_MAX / because.len().max(1);
    let lines: Vec<_> = because.iter().map(|reason| line(reason, each.min(450))).collect();
    (!lines.is_empty()).then(|| block::section(&format!("Why people are asked\n{}", lines.join("\n"))))
}

fn line(reason: &Reason, units_max: usize) -> String {
    let place = match (&reason.file, reason.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    let sentence = format!("{}: {}{place}", reason.rule, reason.says);
    format!("• {}", escape::line(&sentence, Bound::plain(units_max - 2)))
}
