//! The interpreter's errors in our words.
//!
//! Its own texts show values, and ours must not: only names and types are passed on.

use cel::{ExecutionError, OverloadError, ParseErrors, Value};

use super::fault::{EvaluationFault, ExpressionFault, InvalidExpression};

/// A function's own message may quote a pattern; this much of it is kept.
const MESSAGE_CHARS_MAX: usize = 160;

/// Why the interpreter stopped.
pub(super) fn explain(error: &ExecutionError) -> EvaluationFault {
    EvaluationFault::Operation(match error {
        ExecutionError::NoSuchKey(key) => return EvaluationFault::MissingKey { key: key.to_string() },
        ExecutionError::NoSuchOverload(overload) => misapplied(overload),
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            format!("`{}` does not work on {} and {}", sign(operator), kind(left), kind(right))
        }
        ExecutionError::Overflow(operator, ..) => format!("`{}` overflows", sign(operator)),
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("{} and {} cannot be compared", kind(left), kind(right))
        }
        ExecutionError::UnsupportedIndex(index, indexed) => {
            format!("a {} cannot be indexed with {}", kind(indexed), kind(index))
        }
        ExecutionError::UnexpectedType { got, want } => format!("expected {want}, found {got}"),
        ExecutionError::UnsupportedKeyType(key) => format!("a {} cannot be a key", kind(key)),
        ExecutionError::DuplicateKey(_) => "a key stands twice in one map".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "the list has no item at that index".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::UndeclaredReference(name) => format!("unknown name `{name}`"),
        ExecutionError::FunctionError { function, message } => {
            let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
            format!("`{function}` failed: {message}")
        }
        _ => "it cannot be evaluated".to_owned(),
    })
}

/// How an operator is written.
fn sign(operator: &str) -> &str {
    match operator {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        other => other.trim_matches(['_', '@']),
    }
}

fn kind(value: &Value) -> String {
    value.type_of().to_string()
}

fn misapplied(overload: &OverloadError) -> String {
    match (overload.function(), overload.argument_types()) {
        ("_._", [of, ..]) => format!("a value of type {of} has no fields"),
        ("_[_]", [of, with]) => format!("a value of type {of} cannot be indexed with {with}"),
        (name, types) => format!("`{}` does not work on {}", sign(name), types.join(" and ")),
    }
}

/// Where and why `code` is not CEL: the first of the parser's errors, the others mostly follow from it.
pub(super) fn syntax(code: &str, errors: &ParseErrors) -> InvalidExpression {
    let Some(error) = errors.errors.first() else {
        return InvalidExpression { at: 0, fault: ExpressionFault::Syntax("not CEL".to_owned()) };
    };
    if error.msg.contains("recursion limit") {
        return InvalidExpression { at: 0, fault: ExpressionFault::TooDeep };
    }
    let reason = error.msg.trim_start_matches("Syntax error: ").replace("<EOF>", "the end");
    InvalidExpression { at: offset(code, error.pos), fault: ExpressionFault::Syntax(reason) }
}

/// The byte of a line and a column of bytes, both counted from 1.
fn offset(code: &str, (line, column): (isize, isize)) -> usize {
    let counted = |number: isize| usize::try_from(number - 1).unwrap_or(0);
    let before: usize = code.split_inclusive('\n').take(counted(line)).map(str::len).sum();
    (before + counted(column)).min(code.len())
}
