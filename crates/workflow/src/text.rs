//! A string that may contain expressions.
//!
//! A string that is exactly one `${ … }` keeps the type of the expression's value. With other text around it, the result
//! is a string. Values are inserted as they are and never evaluated again.

use std::sync::Arc;

use serde_json::Value;

use crate::expression::{Expression, ExpressionCompileError, ExpressionEvalError, Meter, Piece, split};
use crate::template::{BindError, Scope};

#[derive(Debug)]
pub(crate) enum Text {
    /// No expression; `$${` is replaced by `${`.
    Literal(String),
    /// Exactly one expression.
    Whole {
        at: usize,
        expression: Box<Expression>,
    },
    Mixed(Vec<Piece>),
}

impl Text {
    /// Compiles `text`. An error has its byte offset.
    pub(crate) fn compile(text: &str) -> Result<Self, (usize, ExpressionCompileError)> {
        if !text.contains("${") {
            return Ok(Self::Literal(text.to_owned()));
        }
        let mut pieces = split(text).map_err(|e| (e.at, e.error))?;
        match (pieces.pop(), pieces.is_empty()) {
            (None, _) => Ok(Self::Literal(String::new())),
            (Some(Piece::Literal(literal)), true) => Ok(Self::Literal(literal)),
            (Some(Piece::Expression { at, expression }), true) => Ok(Self::Whole { at, expression }),
            (Some(last), false) => {
                pieces.push(last);
                Ok(Self::Mixed(pieces))
            }
        }
    }

    /// The expressions, each with its byte offset in the text.
    pub(crate) fn expressions(&self) -> Vec<(usize, &Expression)> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Whole { at, expression } => vec![(*at, expression)],
            Self::Mixed(pieces) => pieces.iter().filter_map(expression_of).collect(),
        }
    }

    /// The value for `scope`.
    pub(crate) fn bind(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, BindError> {
        match self {
            Self::Literal(literal) => Ok(Value::String(literal.clone())),
            Self::Whole { expression, .. } => evaluate(expression, scope, meter),
            Self::Mixed(_) => self.bind_text(scope, meter).map(Value::String),
        }
    }

    /// The value for `scope` as a string, even if it is exactly one expression.
    pub(crate) fn bind_text(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<String, BindError> {
        match self {
            Self::Literal(literal) => Ok(literal.clone()),
            Self::Whole { expression, .. } => evaluate_text(expression, scope, meter),
            Self::Mixed(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Literal(literal) => Ok(literal.clone()),
                    Piece::Expression { expression, .. } => evaluate_text(expression, scope, meter),
                })
                .collect(),
        }
    }
}

fn expression_of(piece: &Piece) -> Option<(usize, &Expression)> {
    match piece {
        Piece::Literal(_) => None,
        Piece::Expression { at, expression } => Some((*at, expression)),
    }
}

fn evaluate(expression: &Expression, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, BindError> {
    expression.evaluate(scope, meter).map_err(|error| BindError::of(expression.source(), error))
}

/// The value of an expression as part of a string.
fn evaluate_text(expression: &Expression, scope: &Scope, meter: &Arc<Meter>) -> Result<String, BindError> {
    let not_text = |kind| Err(BindError::of(expression.source(), ExpressionEvalError::NotText { kind }));
    match evaluate(expression, scope, meter)? {
        Value::String(text) => Ok(text),
        Value::Bool(flag) => Ok(flag.to_string()),
        // The RFC 8785 form of a number, so that `1.0` and `1` give the same string.
        Value::Number(number) => Ok(String::from_utf8_lossy(&domain::json::canonical(&number)).into_owned()),
        Value::Null => not_text("null"),
        Value::Array(_) => not_text("a list"),
        Value::Object(_) => not_text("a map"),
    }
}
