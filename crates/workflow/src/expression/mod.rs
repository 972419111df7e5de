//! A CEL expression: compiled once, evaluated for a scope.
//!
//! Untrusted expressions are made safe at compile time. [`check`] resolves every name and function, so mistakes are found
//! when the file is parsed, and the inputs of a step are known before the run starts. [`limit`] charges every loop
//! iteration to a work budget, so evaluation ends for data of any size. A panic inside the interpreter is an error of the
//! expression, not of the process.

mod check;
mod convert;
mod error;
mod explain;
mod limit;
mod meter;
mod pattern;
mod scan;
mod variables;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::parser::PrattParser;
use cel::{Context, IdedExpr};
use domain::StepId;
use serde_json::Value;

use crate::template::Scope;

pub use check::{FUNCTIONS, METHODS, PATTERN_BYTES_MAX};
pub use convert::RESULT_BYTES_MAX;
pub use error::{ExpressionCompileError, ExpressionEvalError};
pub(crate) use meter::Meter;
pub(crate) use scan::{Piece, split};

use error::InvalidExpression;
use scan::Tokens;
use variables::Variables;

/// A longer expression is a program and belongs in a tool.
pub const EXPRESSION_BYTES_MAX: usize = 4 * 1024;

/// Keeps the parser's stack below half a megabyte in a debug build.
pub const TOKENS_MAX: usize = 512;

/// The maximum nesting of brackets.
const BRACKETS_DEPTH_MAX: u16 = 32;

#[derive(Debug)]
pub(crate) struct Expression {
    source: Box<str>,
    ast: IdedExpr,
    reads: ExpressionReads,
}

/// The inputs of an expression.
#[derive(Debug, Default)]
pub(crate) struct ExpressionReads {
    pub(crate) trigger: bool,
    pub(crate) run: bool,
    /// The steps whose outputs it reads. In the syntax tree, the step at index 2 has the name `@2`.
    pub(crate) steps: Vec<StepRead>,
}

/// A step whose output is read, and the byte offset of its first use.
#[derive(Debug)]
pub(crate) struct StepRead {
    pub(crate) step: StepId,
    pub(crate) at: usize,
}

impl Expression {
    /// Compiles `code` with its `tokens`.
    pub(crate) fn compile(code: &str, tokens: &Tokens<'_>) -> Result<Self, InvalidExpression> {
        tokens.check_size()?;
        let mut ast = parse(code)?;
        let reads = check::check(&mut ast, tokens)?;
        limit::limit(&mut ast, code.len());
        Ok(Self { source: code.trim().into(), ast, reads })
    }

    /// The text between the braces.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn reads(&self) -> &ExpressionReads {
        &self.reads
    }

    /// The value for `scope`. The work is charged to `meter`.
    pub(crate) fn evaluate(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, ExpressionEvalError> {
        self.check_loaded(scope)?;
        let variables = Variables::new(scope, &self.reads.steps, meter);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(&variables, meter)));
        // An operator may discard the error of an operand that exhausted the budget, so the meter is checked.
        if meter.is_exhausted() {
            return Err(ExpressionEvalError::TooMuchWork);
        }
        let value = outcome.unwrap_or(Err(ExpressionEvalError::Crashed))?;
        domain::json::check(&value).map_err(ExpressionEvalError::Value)?;
        Ok(value)
    }

    fn check_loaded(&self, scope: &Scope) -> Result<(), ExpressionEvalError> {
        if self.reads.trigger && scope.trigger.is_none() {
            return Err(ExpressionEvalError::NotLoaded { name: "trigger".to_owned() });
        }
        match self.reads.steps.iter().find(|read| !scope.steps.contains_key(&read.step)) {
            Some(read) => Err(ExpressionEvalError::NotLoaded { name: format!("steps.{}", read.step) }),
            None => Ok(()),
        }
    }

    fn run(&self, variables: &Variables<'_>, meter: &Arc<Meter>) -> Result<Value, ExpressionEvalError> {
        let mut context = Context::with_env(variables::environment());
        context.set_variable_resolver(variables);
        meter::add_functions(&mut context, meter).map_err(|_| ExpressionEvalError::Crashed)?;
        let value = cel::Value::resolve_val(&self.ast, &context)
            .map_err(|error| explain::explain(&self.source, &error))?;
        convert::to_json(value.as_ref(), meter)
    }
}

fn parse(code: &str) -> Result<IdedExpr, InvalidExpression> {
    let parser = PrattParser::new().max_recursion_depth(BRACKETS_DEPTH_MAX);
    match catch_unwind(AssertUnwindSafe(|| parser.parse(code))) {
        Ok(Ok(ast)) => Ok(ast),
        Ok(Err(errors)) => Err(explain::syntax(code, &errors)),
        Err(_) => {
            Err(InvalidExpression { at: 0, error: ExpressionCompileError::Syntax("not CEL".to_owned()) })
        }
    }
}

#[cfg(test)]
mod tests;
