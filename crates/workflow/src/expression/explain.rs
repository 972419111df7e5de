//! Converts errors of the CEL interpreter.
//!
//! Its messages contain values. Ours contain only names and types.

use cel::{ExecutionError, OverloadError, ParseErrors, Value};

use super::error::{ExpressionCompileError, ExpressionEvalError, InvalidExpression};

/// The message of a function may quote a pattern. It is cut to this length.
const MESSAGE_CHARS_MAX: usize = 160;

/// The error of the expression `source`.
pub(super) fn explain(source: &str, error: &ExecutionError) -> ExpressionEvalError {
    ExpressionEvalError::Operation(match error {
        // A key that the expression computes is a value.
        ExecutionError::NoSuchKey(key) if !source.contains(key.as_str()) => "there is no such key".to_owned(),
        ExecutionError::NoSuchKey(key) => return ExpressionEvalError::MissingKey { key: key.to_string() },
        ExecutionError::NoSuchOverload(overload) => overload_message(overload),
        ExecutionError::UnsupportedBinaryOperator(operator, left, right) => {
            format!("`{}` does not support {} and {}", symbol(operator), type_name(left), type_name(right))
        }
        ExecutionError::Overflow(operator, ..) => format!("`{}` overflows", symbol(operator)),
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("{} and {} cannot be compared", type_name(left), type_name(right))
        }
        ExecutionError::UnsupportedIndex(index, indexed) => {
            format!("a {} cannot be indexed with {}", type_name(indexed), type_name(index))
        }
        ExecutionError::UnexpectedType { got, want } => format!("expected {want}, found {got}"),
        ExecutionError::UnsupportedKeyType(key) => format!("a {} cannot be a key", type_name(key)),
        ExecutionError::DuplicateKey(_) => "duplicate key in a map".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "the list has no item at that index".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::UndeclaredReference(name) => format!("unknown name `{name}`"),
        ExecutionError::FunctionError { function, message } => {
            let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
            format!("`{function}` failed: {message}")
        }
        _ => "the expression cannot be evaluated".to_owned(),
    })
}

/// The symbol of an operator.
fn symbol(operator: &str) -> &str {
    match operator {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        other => other.trim_matches(['_', '@']),
    }
}

fn type_name(value: &Value) -> String {
    value.type_of().to_string()
}

fn overload_message(overload: &OverloadError) -> String {
    match (overload.function(), overload.argument_types()) {
        ("_._", [of, ..]) => format!("a value of type {of} has no fields"),
        ("_[_]", [of, with]) => format!("a value of type {of} cannot be indexed with {with}"),
        (name, types) => format!("`{}` does not support {}", symbol(name), types.join(" and ")),
    }
}

/// The first syntax error of `code`. Later errors are mostly consequences of it.
pub(super) fn syntax(code: &str, errors: &ParseErrors) -> InvalidExpression {
    let Some(error) = errors.errors.first() else {
        return InvalidExpression { at: 0, error: ExpressionCompileError::Syntax("not CEL".to_owned()) };
    };
    if error.msg.contains("recursion limit") {
        return InvalidExpression { at: 0, error: ExpressionCompileError::TooDeep };
    }
    let reason = error.msg.trim_start_matches("Syntax error: ").replace("<EOF>", "the end");
    InvalidExpression { at: offset(code, error.pos), error: ExpressionCompileError::Syntax(reason) }
}

/// The byte offset of a line and a column in bytes, both counted from 1.
fn offset(code: &str, (line, column): (isize, isize)) -> usize {
    let counted = |number: isize| usize::try_from(number - 1).unwrap_or(0);
    let before: usize = code.split_inclusive('\n').take(counted(line)).map(str::len).sum();
    (before + counted(column)).min(code.len())
}
