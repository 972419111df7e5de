//! Why a file is not a workflow: the workflow, the step, a position, and a message with the fix.

use std::fmt;

use domain::cron::InvalidCron;
use domain::id::InvalidId;
use domain::json::InvalidJson;
use domain::plan::STEPS_MAX;
use domain::retry_policy::TOTAL_MAX;
use domain::time::InvalidMillis;
use domain::{Millis, StepId, WorkflowName};

use crate::expression::ExpressionCompileError;
use crate::parse::EXPRESSIONS_MAX;
use crate::position::SourcePosition;
use crate::step::WITH_BYTES_MAX;
use crate::yaml::{DEPTH_MAX, Node, SOURCE_BYTES_MAX};

/// Why a file is not a workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{position}: {kind}", location(.workflow.as_ref(), .step.as_ref()))]
pub struct WorkflowError {
    /// Absent if the file does not name it, or is not YAML.
    pub workflow: Option<WorkflowName>,
    /// Absent if the error is not in a step.
    pub step: Option<StepLabel>,
    pub position: SourcePosition,
    pub kind: ParseErrorKind,
}

/// A step of an invalid file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepLabel {
    Id(StepId),
    /// The position in the list, from 1, of a step without a valid id.
    Number(usize),
}

impl fmt::Display for StepLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "`{id}`"),
            Self::Number(number) => number.fmt(f),
        }
    }
}

/// The names before the position.
fn location(workflow: Option<&WorkflowName>, step: Option<&StepLabel>) -> String {
    let workflow = workflow.map(|name| format!("workflow `{name}`, ")).unwrap_or_default();
    let step = step.map(|step| format!("step {step}, ")).unwrap_or_default();
    workflow + &step
}

impl WorkflowError {
    pub(crate) fn at(position: SourcePosition, kind: ParseErrorKind) -> Self {
        Self { workflow: None, step: None, position, kind }
    }

    pub(crate) fn of(node: &Node, kind: ParseErrorKind) -> Self {
        Self::at(node.referenced.into(), kind)
    }

    pub(crate) fn in_workflow(self, workflow: Option<WorkflowName>) -> Self {
        Self { workflow, ..self }
    }

    pub(crate) fn in_step(self, step: StepLabel) -> Self {
        Self { step: Some(step), ..self }
    }

    /// The error with its line of `source` and a caret under the column.
    pub fn render(&self, source: &str) -> String {
        if self.is_about_a_secret() {
            return format!("{self}\n");
        }
        format!("{self}\n{}", self.position.snippet(source))
    }

    /// Whether the source at the position must not be shown.
    pub fn is_about_a_secret(&self) -> bool {
        matches!(self.kind, ParseErrorKind::LiteralSecret)
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
    #[error("the indentation contains a tab; use spaces")]
    Tab,
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
    #[error("unknown field `{field}` in {of}; {}", did_you_mean(.field, .expected.iter().copied()))]
    UnknownField { field: String, of: &'static str, expected: &'static [&'static str] },
    #[error("unknown field `{field}` in `with` of `{tool}`; {}", did_you_mean(.field, .expected.iter().copied()))]
    UnknownToolField { field: String, tool: Box<str>, expected: Box<[&'static str]> },
    /// The message does not repeat the text.
    #[error(
        "this is a credential, or a reference to one; a workflow must not contain credentials, because it is stored and \
         shown. Remove it, set a connection that has the credential (`countersign connection set`), and name it in the \
         step: `connection: NAME`"
    )]
    LiteralSecret,
    /// Its action would be refused when the step runs.
    #[error(
        "`with` has {bytes} bytes; at most {WITH_BYTES_MAX} are allowed; store large values elsewhere and pass a reference"
    )]
    WithTooLarge { bytes: usize },
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
    #[error("{what} is `{found}`; {}", did_you_mean(.found, .expected.iter().copied()))]
    NotAChoice { what: &'static str, found: String, expected: &'static [&'static str] },
    #[error("{what} is {found}; it must be {range}")]
    OutOfRange { what: &'static str, found: String, range: String },
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
    #[error("unknown tool `{tool}`; {}", did_you_mean(.tool, .known.iter().map(String::as_str)))]
    UnknownTool { tool: String, known: Vec<String> },
    #[error("`{tool}` does not support `{field}`, because it has no effect and is not retried; remove it")]
    NotForBuiltin { tool: &'static str, field: &'static str },
    #[error("`{tool}` cannot be a rollback; use a tool that performs a call")]
    BuiltinUndoes { tool: String },
    /// The name of an event must be known before the run starts.
    #[error("`event` must be a literal; expressions are not allowed here")]
    EventNotLiteral,
    #[error("`base` requires `backoff: exponential`; add it or remove `base`")]
    BaseUnused,
    #[error(
        "the delays of `retry` take {total} together; the maximum is {TOTAL_MAX}; reduce `attempts` or `cap`"
    )]
    DelaysTooLong { total: Millis },
    #[error("the workflow has more than {EXPRESSIONS_MAX} expressions; split it into several workflows")]
    TooManyExpressions,
    #[error(transparent)]
    Expression(#[from] ExpressionCompileError),
    #[error("unknown step `{step}`; {}", suggest_step(.step, .readable))]
    NoSuchStep { step: String, readable: Vec<StepId> },
    #[error("step `{step}` has not run at this point; this expression can read {}", step_list(.readable))]
    NotYetRun { step: String, readable: Vec<StepId> },
}

fn suggest_step(found: &str, readable: &[StepId]) -> String {
    match nearest(found, readable.iter().map(StepId::as_str)) {
        Some(step) => format!("did you mean `{step}`?"),
        None => format!("this expression can read {}", step_list(readable)),
    }
}

fn step_list(steps: &[StepId]) -> String {
    if steps.is_empty() { "no step".to_owned() } else { quoted_list(steps.iter().map(StepId::as_str)) }
}

/// Formats names as a list: each in backticks, separated by commas.
pub(crate) fn quoted_list<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect();
    quoted.join(", ")
}

/// The expected name that is most similar to `found`, or all of them if none is similar.
fn did_you_mean<'n>(found: &str, expected: impl IntoIterator<Item = &'n str> + Clone) -> String {
    match nearest(found, expected.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("expected one of {}", quoted_list(expected)),
    }
}

/// The name with the smallest number of changes to `found`: at most two, and at most a third of its characters.
fn nearest<'n>(found: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let distance_max = (found.chars().count() / 3).clamp(1, 2);
    let nearest = names.into_iter().map(|name| (edit_distance(found, name), name)).min();
    nearest.filter(|(distance, _)| *distance <= distance_max).map(|(_, name)| name)
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
        assert_eq!(did_you_mean("feilds", known), "did you mean `fields`?");
        assert_eq!(did_you_mean("tol", known), "did you mean `tool`?");
        assert_eq!(did_you_mean("x", ["tool", "fields"]), "expected one of `tool`, `fields`");
    }

    #[test]
    fn edit_distance_counts_changes() {
        for (a, b, distance) in [("", "", 0), ("a", "", 1), ("ab", "ba", 2), ("kitten", "sitting", 3)] {
            assert_eq!(edit_distance(a, b), distance, "{a} {b}");
        }
    }
}
