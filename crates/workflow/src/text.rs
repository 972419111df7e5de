//! A text that may hold expressions.
//!
//! A text that is exactly one `${ … }` gives the expression's value, whatever its type; with anything beside
//! it, it gives a text. What comes out of data is put in as it is and never looked at again.

use std::sync::Arc;

use serde_json::Value;

use crate::expression::{EvaluationFault, Expression, ExpressionFault, Meter, Piece, split};
use crate::scope::Scope;
use crate::template::ExpressionError;

/// A compiled text.
#[derive(Debug)]
pub(crate) enum Text {
    /// No expression; `$${` is already `${`.
    Literal(String),
    /// Exactly one expression.
    Whole { at: usize, expression: Box<Expression> },
    /// Several pieces.
    Mixed(Vec<Piece>),
}

impl Text {
    /// Compiles `text`; an error says at which byte it is.
    pub(crate) fn compile(text: &str) -> Result<Self, (usize, ExpressionFault)> {
        if !text.contains("${") {
            return Ok(Self::Literal(text.to_owned()));
        }
        let mut pieces = split(text).map_err(|e| (e.at, e.fault))?;
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

    /// Its expressions, each with the byte of the text at which it begins.
    pub(crate) fn expressions(&self) -> Vec<(usize, &Expression)> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Whole { at, expression } => vec![(*at, expression)],
            Self::Mixed(pieces) => pieces.iter().filter_map(expression_of).collect(),
        }
    }

    /// Its value over `scope`.
    pub(crate) fn bind(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, ExpressionError> {
        match self {
            Self::Literal(literal) => Ok(Value::String(literal.clone())),
            Self::Whole { expression, .. } => evaluated(expression, scope, meter),
            Self::Mixed(_) => self.bind_text(scope, meter).map(Value::String),
        }
    }

    /// Its value over `scope` as a text, even if it is exactly one expression.
    pub(crate) fn bind_text(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<String, ExpressionError> {
        match self {
            Self::Literal(literal) => Ok(literal.clone()),
            Self::Whole { expression, .. } => inserted(expression, scope, meter),
            Self::Mixed(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Literal(literal) => Ok(literal.clone()),
                    Piece::Expression { expression, .. } => inserted(expression, scope, meter),
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

fn evaluated(expression: &Expression, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, ExpressionError> {
    expression.evaluate(scope, meter).map_err(|fault| ExpressionError::of(expression.source(), fault))
}

/// An expression's value as part of a text.
fn inserted(expression: &Expression, scope: &Scope, meter: &Arc<Meter>) -> Result<String, ExpressionError> {
    let not_text = |kind| Err(ExpressionError::of(expression.source(), EvaluationFault::NotText { kind }));
    match evaluated(expression, scope, meter)? {
        Value::String(text) => Ok(text),
        Value::Bool(flag) => Ok(flag.to_string()),
        // The one way RFC 8785 writes a number, so that `1.0` and `1` read the same everywhere.
        Value::Number(number) => Ok(String::from_utf8_lossy(&domain::json::canonical(&number)).into_owned()),
        Value::Null => not_text("null"),
        Value::Array(_) => not_text("a list"),
        Value::Object(_) => not_text("a map"),
    }
}
