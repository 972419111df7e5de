//! Errors of expressions, at compile time and at evaluation.
//!
//! No message contains a value from the data: errors are stored, logged and shown to users who may not see what a step
//! produced. Names and types are enough to find the mistake.

use domain::id::InvalidId;
use domain::json::InvalidJson;

use super::{EXPRESSION_BYTES_MAX, FUNCTIONS, METHODS, PATTERN_BYTES_MAX, RESULT_BYTES_MAX, TOKENS_MAX};
use crate::error::quoted_list;

/// A compile error and its byte offset in the expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidExpression {
    pub(crate) at: usize,
    pub(crate) error: ExpressionCompileError,
}

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionCompileError {
    #[error("`${{` is not closed; add `}}`, or write `$${{` for a literal `${{`")]
    Unclosed,
    #[error("the expression is empty; write one, or `$${{` for a literal `${{`")]
    Empty,
    #[error("the expression has {bytes} bytes; at most {EXPRESSION_BYTES_MAX} are allowed")]
    TooLong { bytes: usize },
    #[error("the expression has more than {TOKENS_MAX} tokens; split it into several `transform` steps")]
    TooManyTokens,
    /// Nested deeper than the stack of the interpreter allows.
    #[error("the expression is nested too deeply; compute a part of it in a `transform` step")]
    TooDeep,
    #[error("invalid expression: {0}")]
    Syntax(String),
    #[error("unknown name `{name}`; expressions can read `trigger`, `steps` and `run`")]
    UnknownName { name: String },
    #[error(
        "unknown function `{name}`; available: {}; on a value: {}",
        quoted_list(FUNCTIONS),
        quoted_list(METHODS)
    )]
    UnknownFunction { name: String },
    #[error("`steps` must name a step, as in `steps.read` or `steps[\"my-step\"]`")]
    WhichStep,
    #[error(transparent)]
    StepId(#[from] InvalidId),
    #[error("`{name}` is reserved and cannot be a loop variable; use another name")]
    ReservedName { name: String },
    /// `Message{field: value}`.
    #[error("`{name}{{…}}` is not supported; write a map, as in `{{\"field\": 1}}`")]
    Message { name: String },
    /// A pattern from the data could be arbitrarily expensive.
    #[error("the pattern of `matches` must be a string literal of at most {PATTERN_BYTES_MAX} bytes")]
    PatternNotLiteral,
    #[error(
        "the pattern of `matches` has too many repetitions; use smaller counts, `+`, or sets such as `[a-z0-9]`"
    )]
    PatternTooLarge,
    #[error("the pattern of `matches` is not a valid regular expression")]
    PatternInvalid,
}

/// Why the evaluation of an expression failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionEvalError {
    #[error("there is no key `{key}`")]
    MissingKey { key: String },
    /// The plan lists the value as an input, but the caller did not supply it.
    #[error("`{name}` was not loaded")]
    NotLoaded { name: String },
    /// An operator or function with operands of the wrong type or value.
    #[error("{0}")]
    Operation(String),
    #[error("the expression processes too much data; reduce the data, or use a tool")]
    TooMuchWork,
    #[error("the result has more than {RESULT_BYTES_MAX} bytes; select less data")]
    TooLarge,
    #[error("the result has type `{kind}`, which JSON does not support")]
    NotJson { kind: String },
    #[error("the result is a map with a key that is not a string; use `string(…)` for the key")]
    KeyNotText,
    /// Infinity or NaN.
    #[error("the result is not a finite number")]
    NotFinite,
    #[error(
        "the result is {kind}, which cannot be inserted into a string; use a string, a number or a boolean"
    )]
    NotText { kind: &'static str },
    #[error(transparent)]
    Value(#[from] InvalidJson),
    /// The interpreter panicked.
    #[error("the expression could not be evaluated: the interpreter failed")]
    Crashed,
}
