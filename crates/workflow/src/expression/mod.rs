//! One expression in CEL: compiled once, evaluated over a scope.
//!
//! An expression is made safe before it first runs. [`check`] knows every name and function it uses, so a
//! mistake is found when the file is read and a step's reads are known before the run starts. [`limit`]
//! makes every loop pay for its turns, so evaluation ends however large the data is. A crash inside the
//! interpreter is an error of the expression, not of the process.

mod check;
mod convert;
mod explain;
mod fault;
mod limit;
mod meter;
mod pattern;
mod roots;
mod scan;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::parser::PrattParser;
use cel::{Context, IdedExpr};
use domain::StepId;
use serde_json::Value;

use crate::scope::Scope;

pub use check::{FUNCTIONS, METHODS, PATTERN_BYTES_MAX};
pub use convert::RESULT_BYTES_MAX;
pub use fault::{EvaluationFault, ExpressionFault};
pub(crate) use meter::Meter;
pub(crate) use scan::{Piece, split};

use fault::InvalidExpression;
use roots::Roots;
use scan::Tokens;

/// What does not fit here is a program; it belongs into a tool.
pub const EXPRESSION_BYTES_MAX: usize = 4 * 1024;

/// An expression of this many words is read by nobody. The bound also keeps the parser's stack below half a
/// megabyte in a debug build.
pub const TOKENS_MAX: usize = 512;

/// The parser's recursion; brackets in brackets.
const BRACKETS_DEPTH_MAX: u16 = 32;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    source: Box<str>,
    ast: IdedExpr,
    reads: ExpressionReads,
}

/// What an expression reads.
#[derive(Debug, Default)]
pub(crate) struct ExpressionReads {
    /// Whether it reads the trigger.
    pub(crate) trigger: bool,
    /// Whether it reads facts about the run.
    pub(crate) run: bool,
    /// The steps whose output it reads. In the tree, the step at index 2 is the name `@2`.
    pub(crate) steps: Vec<StepRead>,
}

/// A step whose output is read, and at which byte of the expression it is first named.
#[derive(Debug)]
pub(crate) struct StepRead {
    pub(crate) step: StepId,
    pub(crate) at: usize,
}

impl Expression {
    /// Compiles `code`, whose words are `tokens`.
    pub(crate) fn compile(code: &str, tokens: &Tokens<'_>) -> Result<Self, InvalidExpression> {
        tokens.bounded()?;
        let mut ast = parsed(code)?;
        let reads = check::check(&mut ast, tokens)?;
        limit::limit(&mut ast, code.len());
        Ok(Self { source: code.trim().into(), ast, reads })
    }

    /// What stands between the braces.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// What it reads.
    pub(crate) fn reads(&self) -> &ExpressionReads {
        &self.reads
    }

    /// Its value over `scope`, paid for from `meter`.
    pub(crate) fn evaluate(&self, scope: &Scope, meter: &Arc<Meter>) -> Result<Value, EvaluationFault> {
        self.expect_loaded(scope)?;
        let roots = Roots::new(scope, &self.reads.steps, meter);
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(&roots, meter)));
        // An operator may swallow the error of an operand that ran out of work; the meter remembers.
        if meter.is_exhausted() {
            return Err(EvaluationFault::TooMuchWork);
        }
        let value = outcome.unwrap_or(Err(EvaluationFault::Crashed))?;
        domain::json::check(&value).map_err(EvaluationFault::Value)?;
        Ok(value)
    }

    fn expect_loaded(&self, scope: &Scope) -> Result<(), EvaluationFault> {
        if self.reads.trigger && scope.trigger.is_none() {
            return Err(EvaluationFault::NotLoaded { name: "trigger".to_owned() });
        }
        match self.reads.steps.iter().find(|read| !scope.steps.contains_key(&read.step)) {
            Some(read) => Err(EvaluationFault::NotLoaded { name: format!("steps.{}", read.step) }),
            None => Ok(()),
        }
    }

    fn run(&self, roots: &Roots<'_>, meter: &Arc<Meter>) -> Result<Value, EvaluationFault> {
        let mut context = Context::with_env(roots::environment());
        context.set_variable_resolver(roots);
        meter::add_functions(&mut context, meter).map_err(|_| EvaluationFault::Crashed)?;
        let value = cel::Value::resolve_val(&self.ast, &context).map_err(|e| explain::explain(&e))?;
        convert::to_json(value.as_ref(), meter)
    }
}

fn parsed(code: &str) -> Result<IdedExpr, InvalidExpression> {
    let parser = PrattParser::new().max_recursion_depth(BRACKETS_DEPTH_MAX);
    match catch_unwind(AssertUnwindSafe(|| parser.parse(code))) {
        Ok(Ok(ast)) => Ok(ast),
        Ok(Err(errors)) => Err(explain::syntax(code, &errors)),
        Err(_) => Err(InvalidExpression { at: 0, fault: ExpressionFault::Syntax("not CEL".to_owned()) }),
    }
}

#[cfg(test)]
mod tests;
