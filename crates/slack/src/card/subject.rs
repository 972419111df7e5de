//! The subject of an approval: the proposed action with its fields, or the workflow's question.

use domain::plan::Call;
use domain::{Action, Reason, Subject};
use serde_json::Value;

use super::fields::{self, FieldLimits};
use super::{CardLimits, block, text};
use crate::escape::{self, TextLimit, units};

/// All reasons together; a policy message has at most 256 characters.
const REASONS_UNITS_MAX: usize = 1_300;

/// The blocks of a subject, and the names of the parts that are not shown in full.
#[derive(Default)]
pub(super) struct RenderedSubject {
    pub(super) blocks: Vec<Value>,
    pub(super) cut: Vec<String>,
}

impl RenderedSubject {
    /// `value` on one line. If it does not fit, `name` is a part that is cut.
    fn line(&mut self, name: &str, value: &str, units_max: usize) -> String {
        let whole = escape::line(value, TextLimit::UNLIMITED);
        self.bounded(name, whole, units_max, || escape::line(value, TextLimit::hashed(units_max)))
    }

    fn bounded(
        &mut self,
        name: &str,
        whole: String,
        units_max: usize,
        cut: impl FnOnce() -> String,
    ) -> String {
        if units(&whole) <= units_max {
            return whole;
        }
        self.cut.push(name.to_owned());
        cut()
    }
}

pub(super) fn render(subject: &Subject, is_rollback: bool, limits: &CardLimits) -> RenderedSubject {
    let mut shown = RenderedSubject::default();
    match subject {
        Subject::Question { message } => {
            let whole = escape::text(message, TextLimit::UNLIMITED);
            let limit = TextLimit::hashed(limits.question);
            let message = shown.bounded("question", whole, limits.question, || escape::text(message, limit));
            shown.blocks.push(block::section(&format!("Question from the workflow\n{message}")));
        }
        Subject::Action { action, verdict, rollback } => {
            let summary = summary(action, is_rollback, limits, &mut shown);
            shown.blocks.push(block::section(&summary));
            let field_limits =
                FieldLimits { units: limits.fields, count: limits.field_count, each: limits.field };
            let (sections, cut) = fields::sections(action, field_limits);
            shown.blocks.extend(sections);
            shown.cut.extend(cut);
            if let Some(call) = rollback {
                let rollback = declared_rollback(call, limits, &mut shown);
                shown.blocks.push(block::section(&rollback));
            }
            shown.blocks.extend(rationale(&verdict.reasons));
            let why = escape::line(text::reversibility_reason(&action.reversibility), TextLimit::UNLIMITED);
            if units(&why) > limits.why {
                shown.cut.push("why it cannot be undone".to_owned());
            }
        }
    }
    shown
}

fn summary(action: &Action, is_rollback: bool, limits: &CardLimits, shown: &mut RenderedSubject) -> String {
    let prefix = if is_rollback { "Rollback: " } else { "" };
    let destructive = if action.destructive { "\nThis action is destructive." } else { "" };
    let target = shown.line("target", &action.target, limits.target);
    format!("{prefix}{} on {target}{destructive}", action.tool)
}

/// The rollback that the workflow declares. Its expressions are evaluated, and it is approved, only when it is needed.
fn declared_rollback(call: &Call, limits: &CardLimits, shown: &mut RenderedSubject) -> String {
    let fields = shown.line("declared rollback", &call.with.to_string(), limits.rollback);
    format!("Declared rollback, if the run fails later\n{} with {fields}", call.tool)
}

/// The policy rules that require approval.
fn rationale(reasons: &[Reason]) -> Option<Value> {
    let each = REASONS_UNITS_MAX / reasons.len().max(1);
    let lines: Vec<_> = reasons.iter().map(|reason| reason_line(reason, each.min(450))).collect();
    (!lines.is_empty()).then(|| block::section(&format!("Why approval is needed\n{}", lines.join("\n"))))
}

fn reason_line(reason: &Reason, units_max: usize) -> String {
    let location = match (&reason.file, reason.line) {
        (Some(file), Some(line)) => format!(" ({file}:{line})"),
        (Some(file), None) => format!(" ({file})"),
        (None, _) => String::new(),
    };
    let sentence = format!("{}: {}{location}", reason.rule, reason.message);
    format!("• {}", escape::line(&sentence, TextLimit::plain(units_max - 2)))
}
