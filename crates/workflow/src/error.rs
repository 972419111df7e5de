//! Why a file is not a workflow: a position, and a message with the fix.

use domain::cron::InvalidCron;
use domain::id::InvalidId;
use domain::json::InvalidJson;
use domain::plan::STEPS_MAX;
use domain::time::InvalidMillis;

use crate::expression::ExpressionCompileError;
use crate::parse::EXPRESSIONS_MAX;
use crate::position::SourcePosition;
use crate::yaml::{DEPTH_MAX, Node, SOURCE_BYTES_MAX};

/// Why a file is not a workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {kind}")]
pub struct WorkflowError {
    pub position: SourcePosition,
    pub kind: ParseErrorKind,
}

impl WorkflowError {
    pub(crate) fn at(position: SourcePosition, kind: ParseErrorKind) -> Self {
        Self { position, kind }
    }

    pub(crate) fn of(node: &Node, kind: ParseErrorKind) -> Self {
        Self { position: node.referenced.into(), kind }
    }

    /// The error with its line of `source` and a caret under the column.
    pub fn render(&self, source: &str) -> String {
        format!("{self}\n{}", self.position.snippet(source))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseErrorKind {
    #[error("the file has {bytes} bytes; at most {SOURCE_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("the file is empty; a workflow needs at least `workflow`, `version` and `steps`")]
    Empty,
    #[error("{0}")]
    Yaml(String),
    #[error("duplicate key `{key}`; remove one of them")]
    DuplicateKey { key: String },
    #[error("the file has more than one YAML document; write one workflow per file")]
    SeveralDocuments,
    #[error("merge keys (`<<`) are not supported; write out the fields")]
    MergeKey,
    /// Infinity or NaN.
    #[error("`{number}` is not a JSON number; quote it to make it a string")]
    NotFinite { number: String },
    /// `007`.
    #[error("`{number}` has leading zeros; quote it to make it a string")]
    LeadingZero { number: String },
    /// `&a [*a]`.
    #[error("an anchor contains itself; write out the value")]
    AnchorInItself,
    #[error("nested more than {DEPTH_MAX} levels deep; reduce the nesting")]
    TooDeep,
    /// Anchors that multiply, or a file with too many nodes.
    #[error("the file is too large after its anchors are expanded; write out the values")]
    ExpandsTooMuch,
    #[error("a key must be a string, found {found}; quote it")]
    KeyNotText { found: &'static str },
    #[error("a key contains `${{`; only values may contain expressions")]
    ExpressionInKey,
    #[error("unknown field `{field}` in {of}; {}", suggestion(.field, .expected))]
    UnknownField { field: String, of: &'static str, expected: &'static [&'static str] },
    /// A field of a later version.
    #[error("`{field}` is not supported by this version; remove it")]
    NotSupported { field: String },
    #[error("`final_only` requires `blast_radius: low` in every step; use another validation mode")]
    FinalOnlyTooFar,
    #[error("`trigger` must have exactly one of `servicenow`, `github`, `webhook` and `schedule`")]
    NotOneTrigger,
    #[error("`when` must be one expression, such as `${{ trigger.record.priority == \"1\" }}`")]
    NotACondition,
    #[error(transparent)]
    Cron(#[from] InvalidCron),
    #[error("unknown time zone {found:?}; use an IANA name, such as `Europe/Berlin` or `UTC`")]
    NoSuchZone {
        /// Cut to a bounded length.
        found: String,
    },
    #[error(
        "the concurrency key is empty; use a value of the trigger, such as `${{ trigger.record.sys_id }}`"
    )]
    ConcurrencyKeyEmpty,
    #[error("the concurrency key reads `run`, which differs for every run; read `trigger` instead")]
    ConcurrencyKeyReadsRun,
    #[error("invalid table or event name {found:?}; use letters, digits, `_`, `.` and `-`")]
    NotAWord {
        /// Cut to a bounded length.
        found: String,
    },
    #[error("`groups` has {groups} groups; at most {most} are allowed")]
    TooManyGroups { groups: usize, most: usize },
    #[error("missing field `{field}` in {of}")]
    Missing { of: &'static str, field: &'static str },
    #[error("{what} must be {expected}, found {found}")]
    WrongType { what: &'static str, expected: &'static str, found: &'static str },
    #[error("{what} is `{found}`; expected one of {}", listed(*expected))]
    NotAChoice { what: &'static str, found: String, expected: &'static [&'static str] },
    #[error("{what} is {found}; it must be {least} to {most}")]
    OutOfRange { what: &'static str, found: String, least: String, most: String },
    #[error(transparent)]
    Id(#[from] InvalidId),
    #[error(transparent)]
    Duration(#[from] InvalidMillis),
    #[error(transparent)]
    Value(#[from] InvalidJson),
    #[error("`steps` is empty; add at least one step")]
    NoSteps,
    #[error(
        "the workflow has {steps} steps; at most {STEPS_MAX} are allowed; split it into several workflows"
    )]
    TooManySteps { steps: usize },
    #[error("duplicate step id `{id}`, first used on line {first}; rename one of the steps")]
    DuplicateStep { id: String, first: usize },
    #[error("unknown tool `{tool}`; available: {known}")]
    UnknownTool { tool: String, known: String },
    #[error("`{tool}` does not support `{field}`, because it has no effect and is not retried; remove it")]
    NotForBuiltin { tool: &'static str, field: &'static str },
    #[error("`{tool}` cannot be a rollback; use a tool that performs a call")]
    BuiltinUndoes { tool: String },
    /// The name of an event must be known before the run starts.
    #[error("`event` must be a literal; expressions are not allowed here")]
    EventNotLiteral,
    #[error("`base` requires `backoff: exponential`; add it or remove `base`")]
    BaseUnused,
    #[error("the workflow has more than {EXPRESSIONS_MAX} expressions; split it into several workflows")]
    TooManyExpressions,
    #[error(transparent)]
    Expression(#[from] ExpressionCompileError),
    #[error("unknown step `{step}`; this expression can read {readable}")]
    NoSuchStep { step: String, readable: String },
    #[error("step `{step}` has not run at this point; this expression can read {readable}")]
    NotYetRun { step: String, readable: String },
}

/// Formats names as a list: each in backticks, separated by commas.
pub(crate) fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect();
    quoted.join(", ")
}

/// The known field with the most similar name, or all known fields if none is similar.
fn suggestion(field: &str, expected: &[&str]) -> String {
    let nearest = expected.iter().map(|name| (edit_distance(field, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= (field.chars().count() / 3).clamp(1, 2) => {
            format!("did you mean `{name}`?")
        }
        _ => format!("expected one of {}", listed(expected)),
    }
}

/// The number of inserted, removed and replaced characters between `a` and `b` (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_field_is_suggested() {
        let known = ["workflow", "version", "tool", "fields"];
        assert_eq!(suggestion("feilds", &known), "did you mean `fields`?");
        assert_eq!(suggestion("tol", &known), "did you mean `tool`?");
        assert_eq!(suggestion("x", &known[2..]), "expected one of `tool`, `fields`");
    }

    #[test]
    fn edit_distance_counts_changes() {
        for (a, b, distance) in [("", "", 0), ("a", "", 1), ("ab", "ba", 2), ("kitten", "sitting", 3)] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }
}
