//! Adds work accounting to the syntax tree of an expression.
//!
//! Each loop iteration starts with a call of [`TICK`], the text of a match is wrapped in [`MATCHED`], and the range of a
//! loop is wrapped in [`ITEMS`].

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use domain::re2;

use super::meter::{ITEMS, MATCHED, TICK};
use super::pattern;

/// The minimum cost of an iteration, for binding and looking up names. It allows about fifty thousand iterations, which is
/// a list of two hundred items combined with itself.
const ITERATION_WORK: u64 = 512;

/// The cost of compiling one state of a pattern. Each match compiles its pattern again.
const COMPILE_WORK: u64 = 64;

/// The fixed cost of compiling a pattern, in states.
const COMPILE_STATES_MIN: u64 = 64;

/// Adds accounting to every loop and match in `ast`. `bytes` is the length of the expression: its string literals may be
/// copied in every iteration.
pub(super) fn limit(ast: &mut IdedExpr, bytes: usize) {
    let base = ITERATION_WORK.saturating_add(bytes as u64);
    Limiter { base, variables: Vec::new() }.expression(ast);
}

struct Limiter {
    base: u64,
    variables: Vec<String>,
}

impl Limiter {
    fn expression(&mut self, part: &mut IdedExpr) {
        if let Expr::Comprehension(comprehension) = &mut part.expr {
            return self.comprehension(comprehension);
        }
        for child in children(&mut part.expr) {
            self.expression(child);
        }
        if let Expr::Call(call) = &mut part.expr {
            charge_match(call);
        }
    }

    fn comprehension(&mut self, comprehension: &mut ComprehensionExpr) {
        self.expression(&mut comprehension.iter_range);
        wrap(&mut comprehension.iter_range, |range| call(ITEMS, vec![range]));
        self.variables.push(comprehension.iter_var.clone());
        // The tick is built before the inner loops are instrumented, so that it does not count their accounting calls.
        let tick = self.tick(comprehension);
        self.expression(&mut comprehension.loop_step);
        self.variables.pop();
        charge_iteration(&mut comprehension.loop_step, tick);
    }

    fn tick(&self, comprehension: &mut ComprehensionExpr) -> IdedExpr {
        let mut names = Vec::new();
        collect_names(&mut comprehension.loop_step, &mut names);
        let variables = names.into_iter().filter(|name| self.variables.contains(name));
        let mut arguments = vec![number(self.base)];
        arguments.push(node(Expr::Ident(comprehension.iter_var.clone())));
        arguments.extend(variables.map(|name| node(Expr::Ident(name))));
        call(TICK, arguments)
    }
}

/// Inserts `tick` before the evaluated part of an iteration: the condition of `condition ? … : …`, the item of
/// `@result + [item]`, the right side of `@result && …`. The outer shape stays, because the interpreter optimizes only
/// loops of known shapes.
fn charge_iteration(step: &mut IdedExpr, tick: IdedExpr) {
    let evaluated = match &mut step.expr {
        Expr::Call(call) => match call.func_name.as_str() {
            operators::CONDITIONAL => call.args.first_mut(),
            operators::LOGICAL_AND | operators::LOGICAL_OR => call.args.get_mut(1),
            operators::ADD => call.args.get_mut(1).and_then(first_item),
            _ => None,
        },
        _ => None,
    };
    match evaluated {
        Some(part) => charge_before(part, tick),
        None => charge_before(step, tick),
    }
}

fn first_item(part: &mut IdedExpr) -> Option<&mut IdedExpr> {
    match &mut part.expr {
        Expr::List(list) => list.elements.first_mut(),
        _ => None,
    }
}

/// Replaces `part` by `tick ? part : null`. A failed tick ends the evaluation before `part`.
fn charge_before(part: &mut IdedExpr, tick: IdedExpr) {
    wrap(part, |part| call(operators::CONDITIONAL, vec![tick, part, literal(LiteralValue::Null)]));
}

/// Replaces `text.matches(pattern)` by `@matched(…, …, text).matches(translated)`. The interpreter matches with Rust's
/// `regex`, and CEL defines patterns by RE2.
fn charge_match(call: &mut CallExpr) {
    if let ("matches", Some(text), [IdedExpr { expr: Expr::Literal(LiteralValue::String(pattern)), .. }]) =
        (call.func_name.as_str(), &mut call.target, call.args.as_mut_slice())
    {
        let cost = pattern::cost(pattern.inner());
        let compiled = number((COMPILE_STATES_MIN + cost.compiled).saturating_mul(COMPILE_WORK));
        let matched = number(cost.matched);
        wrap(text, |text| self::call(MATCHED, vec![compiled, matched, text]));
        if let Ok(translated) = re2::translate(pattern.inner()) {
            *pattern = translated.into();
        }
    }
}

/// The names that an iteration references, with repetitions, without the bodies of inner loops.
fn collect_names(part: &mut IdedExpr, names: &mut Vec<String>) {
    match &mut part.expr {
        Expr::Ident(name) => names.push(name.clone()),
        Expr::Comprehension(comprehension) => collect_names(&mut comprehension.iter_range, names),
        other => children(other).into_iter().for_each(|child| collect_names(child, names)),
    }
}

fn children(part: &mut Expr) -> Vec<&mut IdedExpr> {
    match part {
        Expr::Call(call) => call.target.iter_mut().map(Box::as_mut).chain(&mut call.args).collect(),
        Expr::Select(select) => vec![&mut select.operand],
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(|entry| entry_parts(&mut entry.expr)).collect(),
        Expr::Struct(message) => {
            message.entries.iter_mut().flat_map(|entry| entry_parts(&mut entry.expr)).collect()
        }
        Expr::Comprehension(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn entry_parts(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
        EntryExpr::StructField(field) => vec![&mut field.value],
    }
}

fn wrap(part: &mut IdedExpr, wrapping: impl FnOnce(IdedExpr) -> IdedExpr) {
    *part = wrapping(std::mem::take(part));
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn number(number: u64) -> IdedExpr {
    literal(LiteralValue::Int(i64::try_from(number).unwrap_or(i64::MAX).into()))
}

fn literal(value: LiteralValue) -> IdedExpr {
    node(Expr::Literal(value))
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}
