//! Why a file is not a workflow: a place, and a sentence that names the thing and the way out.

use domain::cron::InvalidCron;
use domain::id::InvalidId;
use domain::json::InvalidJson;
use domain::plan::STEPS_MAX;
use domain::time::InvalidMillis;

use crate::expression::ExpressionFault;
use crate::parse::EXPRESSIONS_MAX;
use crate::place::Place;
use crate::yaml::{DEPTH_MAX, Node, SOURCE_BYTES_MAX};

/// Why a file is not a workflow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct WorkflowError {
    /// Where.
    pub place: Place,
    /// What is wrong there.
    pub fault: Fault,
}

impl WorkflowError {
    pub(crate) fn at(place: Place, fault: Fault) -> Self {
        Self { place, fault }
    }

    pub(crate) fn of(node: &Node, fault: Fault) -> Self {
        Self { place: node.referenced.into(), fault }
    }

    /// The error with the line of `source` it is about, and a caret under the column.
    pub fn render(&self, source: &str) -> String {
        format!("{self}\n{}", self.place.snippet(source))
    }
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// More than [`SOURCE_BYTES_MAX`].
    #[error("the file has {bytes} bytes; at most {SOURCE_BYTES_MAX} are allowed")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
    /// No document.
    #[error("the file is empty; a workflow has at least `workflow`, `version` and `steps`")]
    Empty,
    /// Not YAML.
    #[error("{0}")]
    Yaml(String),
    /// A key that stands twice.
    #[error("the key `{key}` stands twice in one map; keep one of them")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// More than one document.
    #[error("a second document begins here; a file holds one workflow")]
    SeveralDocuments,
    /// `<<`.
    #[error("merge keys (`<<`) are not supported; write the fields out")]
    MergeKey,
    /// Infinity, or no number at all.
    #[error("`{number}` is not a number that JSON knows; put it in quotes")]
    NotFinite {
        /// How it is written.
        number: String,
    },
    /// `007`.
    #[error("`{number}` would be read as a number; put it in quotes")]
    LeadingZero {
        /// How it is written.
        number: String,
    },
    /// `&a [*a]`.
    #[error("an anchor holds itself; write the value out")]
    AnchorInItself,
    /// Deeper than any honest document.
    #[error("nested more than {DEPTH_MAX} levels deep; no step needs that")]
    TooDeep,
    /// Anchors that multiply, or a file made of nothing but brackets.
    #[error("the file unfolds into far more than it says; write the values out instead of using anchors")]
    Unfolds,
    /// A key that is a number, a list and so on.
    #[error("a key must be a text, found {found}; put it in quotes")]
    KeyNotText {
        /// What it is.
        found: &'static str,
    },
    /// A key with `${`.
    #[error("a key holds `${{`; only values may hold expressions")]
    ExpressionInKey,
    /// A field nobody knows.
    #[error("unknown field `{field}` in {of}; expected one of {}", listed(*expected))]
    UnknownField {
        /// The field.
        field: String,
        /// What it stands in.
        of: &'static str,
        /// What may stand there.
        expected: &'static [&'static str],
    },
    /// A field of a later version.
    #[error("`{field}` is not supported by this version; leave it out")]
    NotYet {
        /// The field.
        field: String,
    },
    /// `final_only` where a step reaches far.
    #[error("`final_only` is for runs of a low blast radius, and a step of this one reaches farther")]
    FinalOnlyTooFar,
    /// No trigger, or several.
    #[error("`trigger` names exactly one of `servicenow`, `github`, `webhook` and `schedule`")]
    NotOneTrigger,
    /// A condition that is no expression.
    #[error("`when` is one expression, such as `${{ trigger.record.priority == \"1\" }}`")]
    NotACondition,
    /// A text that is no cron.
    #[error(transparent)]
    Cron(#[from] InvalidCron),
    /// A time zone nobody knows.
    #[error(
        "there is no time zone {found:?}; write a name of the IANA database, such as `Europe/Berlin` or `UTC`"
    )]
    NoSuchZone {
        /// What was found, in short.
        found: String,
    },
    /// A ticket without a name.
    #[error("`ticket` is empty; name what a run is about, such as `${{ trigger.record.sys_id }}`")]
    TicketEmpty,
    /// A ticket that every run would have to itself.
    #[error("`ticket` reads `run`, which is another for every run; read what came, as `trigger`")]
    TicketOfRun,
    /// The name of a table or an event is a word.
    #[error("{found:?} is no name of a table or an event; letters, digits, `_`, `.` and `-` are allowed")]
    NotAWord {
        /// What was found, in short.
        found: String,
    },
    /// More groups than anybody can tell apart.
    #[error("`groups` names {groups} groups; at most {most} are allowed")]
    TooManyGroups {
        /// How many it names.
        groups: usize,
        /// How many it may name.
        most: usize,
    },
    /// A field that must be there.
    #[error("{of} needs the field `{field}`")]
    Missing {
        /// What it is missing from.
        of: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A text where a number should be, and the like.
    #[error("{what} must be {expected}, found {found}")]
    WrongKind {
        /// What is wrong.
        what: &'static str,
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A word that is none of the words allowed.
    #[error("{what} is `{found}`; expected one of {}", listed(*expected))]
    NotAChoice {
        /// What is wrong.
        what: &'static str,
        /// What is there.
        found: String,
        /// What may be there.
        expected: &'static [&'static str],
    },
    /// A number or a length of time out of its bounds.
    #[error("{what} is {found}; allowed is {least} to {most}")]
    OutOfRange {
        /// What is wrong.
        what: &'static str,
        /// What is there.
        found: String,
        /// The least it may be.
        least: String,
        /// The most it may be.
        most: String,
    },
    /// A text that is not an id.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// A text that is not a length of time.
    #[error(transparent)]
    Duration(#[from] InvalidMillis),
    /// A value that JSON readers disagree about.
    #[error(transparent)]
    Value(#[from] InvalidJson),
    /// No step at all.
    #[error("there are no steps; a workflow has at least one")]
    NoSteps,
    /// More than [`STEPS_MAX`].
    #[error("there are {steps} steps; at most {STEPS_MAX} are allowed, so make it several workflows")]
    TooManySteps {
        /// How many there are.
        steps: usize,
    },
    /// Two steps of one name.
    #[error("the step `{id}` stands twice, first on line {first}; give one of them another id")]
    DuplicateStep {
        /// The name.
        id: String,
        /// The line of the first.
        first: usize,
    },
    /// A tool nobody has.
    #[error("unknown tool `{tool}`; there are {known}")]
    UnknownTool {
        /// The tool.
        tool: String,
        /// The tools there are.
        known: String,
    },
    /// `retry` or `rollback` where nothing is executed.
    #[error("`{tool}` takes no `{field}`: it changes nothing and is not tried again; leave it out")]
    NotForBuiltin {
        /// The tool.
        tool: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A wait or a question as the undoing of a step.
    #[error("`{tool}` cannot undo a step; name a tool that is called")]
    BuiltinUndoes {
        /// The tool.
        tool: String,
    },
    /// The name of an event must be known before the run starts.
    #[error("`event` must be written out; an expression is not allowed here")]
    EventNotLiteral,
    /// `base` without the backoff that uses it.
    #[error("`base` is only used by `backoff: exponential`; add that, or leave `base` out")]
    BaseUnused,
    /// More than [`EXPRESSIONS_MAX`].
    #[error("the workflow has more than {EXPRESSIONS_MAX} expressions; make it several workflows")]
    TooManyExpressions,
    /// An expression that cannot be compiled.
    #[error(transparent)]
    Expression(#[from] ExpressionFault),
    /// An expression that reads a step nobody knows.
    #[error("there is no step `{step}`; this can read {readable}")]
    NoSuchStep {
        /// The step.
        step: String,
        /// The steps it could read.
        readable: String,
    },
    /// An expression that reads the future.
    #[error("step `{step}` has not run yet at this point; this can read {readable}")]
    NotYetRun {
        /// The step.
        step: String,
        /// The steps it could read.
        readable: String,
    },
}

/// Names for a sentence: each in backticks, with commas between.
pub(crate) fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect();
    quoted.join(", ")
}
