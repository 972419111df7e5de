//! What can be wrong with an expression, before it runs and while it does.
//!
//! No text here holds a value out of the data: errors are stored, logged and shown to people who may not
//! see what a step produced. Names and kinds are enough to find the mistake.

use domain::id::InvalidId;
use domain::json::InvalidJson;

use super::{EXPRESSION_BYTES_MAX, FUNCTIONS, METHODS, PATTERN_BYTES_MAX, RESULT_BYTES_MAX, TOKENS_MAX};
use crate::error::listed;

/// Why an expression cannot be compiled, and at which byte of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidExpression {
    pub(crate) at: usize,
    pub(crate) fault: ExpressionFault,
}

/// Why an expression cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionFault {
    /// No closing brace.
    #[error("this `${{` is not closed; add `}}`, or write `$${{` for a plain `${{`")]
    Unclosed,
    /// Nothing between the braces.
    #[error("the expression is empty; write one, or `$${{` for a plain `${{`")]
    Empty,
    /// More than [`EXPRESSION_BYTES_MAX`].
    #[error("the expression has {bytes} bytes; at most {EXPRESSION_BYTES_MAX} are allowed")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
    /// More than [`TOKENS_MAX`].
    #[error("the expression has more than {TOKENS_MAX} words and signs; use several `transform` steps")]
    TooManyTokens,
    /// Nested deeper than the interpreter can follow.
    #[error("the expression is nested too deeply; compute a part of it in a `transform` step")]
    TooDeep,
    /// Not CEL.
    #[error("the expression cannot be read: {0}")]
    Syntax(String),
    /// A name that is neither data nor a loop's variable.
    #[error("unknown name `{name}`; an expression reads `trigger`, `steps` and `run`")]
    UnknownName {
        /// The name.
        name: String,
    },
    /// A function nobody has.
    #[error("unknown function `{name}`; there are {}, and on a value {}", listed(FUNCTIONS), listed(METHODS))]
    UnknownFunction {
        /// The function.
        name: String,
    },
    /// `steps` in a way that does not say which step.
    #[error("`steps` must name a step, as in `steps.read` or `steps[\"my-step\"]`")]
    WhichStep,
    /// A step's name that cannot be one.
    #[error(transparent)]
    StepId(#[from] InvalidId),
    /// A loop variable that would hide data.
    #[error("`{name}` is data and cannot be the variable of a loop; choose another name")]
    Hides {
        /// The name.
        name: String,
    },
    /// `Message{field: value}`.
    #[error("`{name}{{…}}` is not a value expressions know; write a map, as in `{{\"field\": 1}}`")]
    Message {
        /// Its name.
        name: String,
    },
    /// A pattern out of data would be a program from a stranger.
    #[error("the pattern of `matches` must be written out as a text of at most {PATTERN_BYTES_MAX} bytes")]
    PatternNotLiteral,
    /// Counted repetitions that multiply.
    #[error("the pattern of `matches` repeats too much; use smaller counts, `+`, or sets such as `[a-z0-9]`")]
    PatternTooLarge,
    /// Not a regular expression.
    #[error("the pattern of `matches` is not a regular expression")]
    PatternInvalid,
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationFault {
    /// A key that is not there. Never an empty text.
    #[error("there is no key `{key}`")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// What the plan says is read was not handed in.
    #[error("`{name}` was not loaded")]
    NotLoaded {
        /// What.
        name: String,
    },
    /// An operator or function that does not work on what it got.
    #[error("{0}")]
    Operation(String),
    /// The loops together looked at more than is allowed.
    #[error("it looks at too much data; narrow it down, or leave the work to a tool")]
    TooMuchWork,
    /// More than [`RESULT_BYTES_MAX`].
    #[error("it gives more than {RESULT_BYTES_MAX} bytes; pick what is needed")]
    TooLarge,
    /// Bytes, a type, and the like.
    #[error("it gives a value of type `{kind}`, which JSON does not know")]
    NotJson {
        /// The type.
        kind: String,
    },
    /// A map whose keys are not texts.
    #[error("it gives a map with a key that is not a text; use `string(…)` for the key")]
    KeyNotText,
    /// Infinity, or no number at all.
    #[error("it gives a number that is not finite")]
    NotFinite,
    /// A map, list or null in the middle of a text.
    #[error("it gives {kind}, which cannot stand inside a text; pick a text, a number or a yes or no")]
    NotText {
        /// What it gives.
        kind: &'static str,
    },
    /// A value that JSON readers disagree about.
    #[error(transparent)]
    Value(#[from] InvalidJson),
    /// The interpreter broke.
    #[error("it could not be evaluated; the interpreter failed")]
    Crashed,
}
