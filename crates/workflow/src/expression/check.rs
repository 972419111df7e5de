//! Resolves the names of an expression at compile time.
//!
//! An expression reads `trigger`, `steps.<id>`, `run` and its own loop variables. The checker refuses all other names, limits
//! the recursion depth of the interpreter, and replaces each step by a short name (`@0`, `@1`, …), so that ids with dots and
//! dashes resolve like any other.

use cel::IdedExpr;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, MapExpr, SelectExpr, operators,
};
use domain::{StepId, re2};

use super::error::{ExpressionCompileError, InvalidExpression};
use super::scan::Tokens;
use super::{ExpressionReads, StepRead, pattern};

/// The available functions, in addition to the macro `has`.
pub const FUNCTIONS: [&str; 9] = ["bool", "bytes", "double", "dyn", "int", "size", "string", "type", "uint"];

/// The available methods, in addition to the macros `all`, `exists`, `exists_one`, `filter` and `map`.
pub const METHODS: [&str; 5] = ["contains", "endsWith", "matches", "size", "startsWith"];

/// The maximum length of a regular expression.
pub const PATTERN_BYTES_MAX: usize = 256;

/// CEL requires 24 operators in a row, which are 25 levels. A debug build of the interpreter takes 42 KB of stack per level,
/// so this many fit into 1.25 of the two megabytes that a thread has by default.
const EVALUATION_DEPTH_MAX: usize = 28;

/// The levels of stack that a loop takes.
const LOOP_DEPTH: usize = 4;

/// The maximum depth of the syntax tree. A long path is one level for the interpreter, but not for this checker.
const TREE_DEPTH_MAX: usize = 64;

/// The names of the data. Loop variables may not hide them.
const RESERVED: [&str; 3] = ["trigger", "steps", "run"];

/// Type names, as in `type(x) == int`.
const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// The internal function names of operators. They are not valid CEL identifiers.
const OPERATORS: [&str; 18] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
];

/// Checks `ast` and returns its inputs.
pub(super) fn check(ast: &mut IdedExpr, tokens: &Tokens<'_>) -> Result<ExpressionReads, InvalidExpression> {
    let mut checker = Checker { tokens, variables: Vec::new(), reads: ExpressionReads::default() };
    checker.expression(ast, 0)?;
    Ok(checker.reads)
}

struct Checker<'t> {
    tokens: &'t Tokens<'t>,
    /// The variables of the enclosing loops.
    variables: Vec<String>,
    reads: ExpressionReads,
}

/// The recursion depth of the interpreter for a part of the tree.
type Depth = Result<usize, InvalidExpression>;

impl Checker<'_> {
    fn expression(&mut self, part: &mut IdedExpr, tree_depth: usize) -> Depth {
        let below = tree_depth + 1;
        if let Some(step) = named_step(&part.expr) {
            part.expr = Expr::Ident(self.read_step(&step)?);
        }
        let depth = match &mut part.expr {
            _ if below > TREE_DEPTH_MAX => return Err(at_start(ExpressionCompileError::TooDeep)),
            Expr::Literal(_) => 1,
            Expr::Ident(name) => self.name(name)?,
            Expr::Select(select) => self.select(select, below)?,
            Expr::Call(call) => self.call(call, below)?,
            Expr::List(list) => 1 + self.deepest(list.elements.iter_mut(), below)?,
            Expr::Map(map) => 1 + self.map(map, below)?,
            Expr::Comprehension(comprehension) => LOOP_DEPTH + self.comprehension(comprehension, below)?,
            Expr::Struct(message) => return Err(self.message(&message.type_name)),
            Expr::Unspecified => return Err(at_start(ExpressionCompileError::Syntax("not CEL".to_owned()))),
        };
        if depth > EVALUATION_DEPTH_MAX { Err(at_start(ExpressionCompileError::TooDeep)) } else { Ok(depth) }
    }

    fn deepest<'e>(&mut self, parts: impl Iterator<Item = &'e mut IdedExpr>, tree_depth: usize) -> Depth {
        let mut deepest = 0;
        for part in parts {
            deepest = deepest.max(self.expression(part, tree_depth)?);
        }
        Ok(deepest)
    }

    fn name(&mut self, name: &str) -> Depth {
        match name {
            "trigger" => self.reads.trigger = true,
            "run" => self.reads.run = true,
            "steps" => return Err(self.at_name("steps", ExpressionCompileError::WhichStep)),
            _ if name.starts_with('@') || TYPES.contains(&name) => {}
            _ if self.variables.iter().any(|variable| variable == name) => {}
            _ => {
                return Err(self.at_name(name, ExpressionCompileError::UnknownName { name: name.to_owned() }));
            }
        }
        Ok(1)
    }

    fn select(&mut self, select: &mut SelectExpr, tree_depth: usize) -> Depth {
        let operand = self.expression(&mut select.operand, tree_depth)?;
        // The interpreter resolves a path that starts with a name in one lookup.
        Ok(operand + usize::from(operand > 1))
    }

    fn call(&mut self, call: &mut CallExpr, tree_depth: usize) -> Depth {
        self.function(call)?;
        let target = self.deepest(call.target.iter_mut().map(Box::as_mut), tree_depth)?;
        let arguments = self.deepest(call.args.iter_mut(), tree_depth)?;
        Ok(1 + target.max(arguments))
    }

    fn function(&self, call: &CallExpr) -> Result<(), InvalidExpression> {
        let name = call.func_name.as_str();
        let known = match &call.target {
            Some(_) => METHODS.contains(&name),
            None => {
                FUNCTIONS.contains(&name)
                    || OPERATORS.contains(&name)
                    || name == operators::NOT_STRICTLY_FALSE
            }
        };
        match name {
            _ if !known => {
                Err(self.at_name(name, ExpressionCompileError::UnknownFunction { name: name.to_owned() }))
            }
            "matches" => check_pattern(call).map_err(|error| self.at_name(name, error)),
            _ => Ok(()),
        }
    }

    fn map(&mut self, map: &mut MapExpr, tree_depth: usize) -> Depth {
        let mut deepest = 0;
        for entry in &mut map.entries {
            let parts = match &mut entry.expr {
                EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
                EntryExpr::StructField(field) => vec![&mut field.value],
            };
            deepest = deepest.max(self.deepest(parts.into_iter(), tree_depth)?);
        }
        Ok(deepest)
    }

    fn comprehension(&mut self, comprehension: &mut ComprehensionExpr, tree_depth: usize) -> Depth {
        if RESERVED.contains(&comprehension.iter_var.as_str()) {
            return Err(self.at_name(
                &comprehension.iter_var,
                ExpressionCompileError::ReservedName { name: comprehension.iter_var.clone() },
            ));
        }
        let outside = self
            .deepest([&mut comprehension.iter_range, &mut comprehension.accu_init].into_iter(), tree_depth)?;
        self.variables.push(comprehension.iter_var.clone());
        let body = [&mut comprehension.loop_cond, &mut comprehension.loop_step, &mut comprehension.result];
        let inside = self.deepest(body.into_iter(), tree_depth);
        self.variables.pop();
        Ok(outside.max(inside?))
    }

    /// Records that a step is read, and returns its short name.
    fn read_step(&mut self, id: &str) -> Result<String, InvalidExpression> {
        let at = self.tokens.find_step(id);
        let step = StepId::new(id).map_err(|e| InvalidExpression { at, error: e.into() })?;
        let known = self.reads.steps.iter().position(|read| read.step == step);
        let index = known.unwrap_or_else(|| {
            self.reads.steps.push(StepRead { step, at });
            self.reads.steps.len() - 1
        });
        Ok(format!("@{index}"))
    }

    fn message(&self, name: &str) -> InvalidExpression {
        self.at_name(name, ExpressionCompileError::Message { name: name.to_owned() })
    }

    fn at_name(&self, name: &str, error: ExpressionCompileError) -> InvalidExpression {
        InvalidExpression { at: self.tokens.find_name(name), error }
    }
}

fn at_start(error: ExpressionCompileError) -> InvalidExpression {
    InvalidExpression { at: 0, error }
}

/// The step id in `steps.read` or `steps["read"]`.
fn named_step(part: &Expr) -> Option<String> {
    match part {
        Expr::Select(select) if !select.test && is_steps(&select.operand) => Some(select.field.clone()),
        Expr::Call(call) if call.func_name == operators::INDEX => match call.args.as_slice() {
            [whole, IdedExpr { expr: Expr::Literal(LiteralValue::String(id)), .. }] if is_steps(whole) => {
                Some(id.inner().to_owned())
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_steps(part: &IdedExpr) -> bool {
    matches!(&part.expr, Expr::Ident(name) if name == "steps")
}

/// Refuses a pattern that is not a literal, is too expensive or is invalid.
fn check_pattern(call: &CallExpr) -> Result<(), ExpressionCompileError> {
    match call.args.as_slice() {
        [IdedExpr { expr: Expr::Literal(LiteralValue::String(text)), .. }]
            if text.inner().len() <= PATTERN_BYTES_MAX =>
        {
            match pattern::cost(text.inner()).compiled {
                ..=pattern::STATES_MAX => check_compiles(text.inner()),
                _ => Err(ExpressionCompileError::PatternTooLarge),
            }
        }
        _ => Err(ExpressionCompileError::PatternNotLiteral),
    }
}

/// Compiles the pattern by matching it against an empty string, because the interpreter has no other way.
fn check_compiles(pattern: &str) -> Result<(), ExpressionCompileError> {
    let pattern = re2::translate(pattern).map_err(|_| ExpressionCompileError::PatternInvalid)?;
    let literal = |text: &str| Expr::Literal(LiteralValue::String(text.to_owned().into()));
    let node = |expr: Expr| IdedExpr { id: 0, expr };
    let trial = node(Expr::Call(CallExpr {
        func_name: "matches".to_owned(),
        target: Some(Box::new(node(literal("")))),
        args: vec![node(literal(&pattern))],
    }));
    let context = cel::Context::with_env(super::variables::environment());
    cel::Value::resolve(&trial, &context).map(|_| ()).map_err(|_| ExpressionCompileError::PatternInvalid)
}
