//! Visits every expression of a rule once.

use std::collections::BTreeSet;

use regorus::unstable::{
    AssignOp, BoolOp, Expr, Literal, LiteralStmt, Query, Ref, Rule, RuleAssign, RuleHead,
};

use super::{Reference, ReferenceKind, literal, location_of, path_of};

#[derive(Default)]
pub(super) struct Collector {
    pub(super) references: Vec<Reference>,
    /// The variables that the rule binds.
    pub(super) bound: BTreeSet<String>,
    /// The nesting depth of the deepest expression.
    pub(super) depth: usize,
    /// The current nesting depth. The limits of the parser bound it.
    current_depth: usize,
    /// The number of loops around the current expression.
    loops: usize,
    /// Whether OPA evaluates the current expression before the `not` around it.
    is_before_not: bool,
}

/// Collects the references of `rule`, without its own name.
pub(super) fn collect(rule: &Rule) -> Collector {
    let mut collector = Collector::default();
    match rule {
        Rule::Spec { head, bodies, .. } => {
            collector.head(head);
            for body in bodies {
                collector.assigned_value(body.assign.as_ref());
                collector.query(&body.query);
            }
        }
        Rule::Default { args, value, .. } => {
            collector.exprs(args);
            collector.expr(value);
        }
    }
    collector
}

impl Collector {
    fn head(&mut self, head: &RuleHead) {
        match head {
            RuleHead::Compr { assign, .. } => self.assigned_value(assign.as_ref()),
            RuleHead::Set { key, .. } => self.exprs(key),
            RuleHead::Func { args, assign, .. } => {
                self.bind_all(args);
                self.exprs(args);
                self.assigned_value(assign.as_ref());
            }
        }
    }

    fn assigned_value(&mut self, assign: Option<&RuleAssign>) {
        if let Some(assign) = assign {
            self.expr(&assign.value);
        }
    }

    fn query(&mut self, query: &Query) {
        // The evaluator runs the rest of a query inside each loop, so each loop adds a level.
        let outer = self.loops;
        for statement in &query.stmts {
            self.statement(statement);
        }
        self.loops = outer;
    }

    /// The expression of `not`. OPA evaluates the operands of its outermost call or operator before `not`, so an operand
    /// without a value makes the whole statement undefined. Only a reference, and each side of `==`, is evaluated inside.
    fn negated(&mut self, expr: &Expr) {
        self.current_depth += 1;
        self.depth = self.depth.max(self.current_depth + self.loops);
        match expr {
            Expr::Call { fcn, params, .. } => {
                self.call(fcn, params);
                self.before_not(params);
            }
            Expr::BoolExpr { op: BoolOp::Eq, lhs, rhs, .. } | Expr::AssignExpr { lhs, rhs, .. } => {
                self.equality_side(lhs);
                self.equality_side(rhs);
            }
            Expr::BoolExpr { lhs, rhs, .. }
            | Expr::BinExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. } => self.before_not([lhs, rhs]),
            Expr::Membership { key, value, collection, .. } => {
                self.before_not(key.iter().chain([value, collection]));
            }
            other => self.equality_side(other),
        }
        self.current_depth -= 1;
    }

    /// A side of `==` inside `not`, or a reference.
    fn equality_side(&mut self, expr: &Expr) {
        match expr {
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                self.add_reference(expr, ReferenceKind::Read);
                let outer = std::mem::replace(&mut self.is_before_not, true);
                self.reference_parts(expr);
                self.is_before_not = outer;
            }
            other => {
                let outer = std::mem::replace(&mut self.is_before_not, true);
                self.expr(other);
                self.is_before_not = outer;
            }
        }
    }

    fn before_not<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Ref<Expr>>) {
        let outer = std::mem::replace(&mut self.is_before_not, true);
        self.exprs(exprs);
        self.is_before_not = outer;
    }

    fn call(&mut self, function: &Expr, params: &[Ref<Expr>]) {
        let first = params.first().and_then(|first| literal(first));
        self.add_reference(function, ReferenceKind::Call(first));
    }

    fn statement(&mut self, statement: &LiteralStmt) {
        match &statement.literal {
            Literal::SomeVars { vars, .. } => self.bound.extend(vars.iter().map(|var| var.text().to_owned())),
            Literal::SomeIn { key, value, collection, .. } => {
                self.bind_all(key.iter().chain([value]));
                self.exprs(key.iter().chain([value, collection]));
                self.loops += 1;
            }
            Literal::Expr { expr, .. } => self.expr(expr),
            Literal::NotExpr { expr, .. } => self.negated(expr),
            Literal::Every { key, value, domain, query, .. } => {
                self.bound.extend(key.iter().chain([value]).map(|var| var.text().to_owned()));
                self.expr(domain);
                self.query(query);
            }
        }
        for with in &statement.with_mods {
            self.add_reference(&with.refr, ReferenceKind::With);
            self.expr(&with.r#as);
        }
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Ref<Expr>>) {
        for expr in exprs {
            self.expr(expr);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        self.current_depth += 1;
        self.depth = self.depth.max(self.current_depth + self.loops);
        self.visit_parts(expr);
        self.current_depth -= 1;
    }

    fn visit_parts(&mut self, expr: &Expr) {
        match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                self.add_reference(expr, ReferenceKind::Read);
                self.reference_parts(expr);
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => self.exprs(items),
            Expr::Object { fields, .. } => {
                self.exprs(fields.iter().flat_map(|(_, key, value)| [key, value]));
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.comprehension([term], query);
            }
            Expr::ObjectCompr { key, value, query, .. } => self.comprehension([key, value], query),
            Expr::Call { fcn, params, .. } => {
                self.call(fcn, params);
                self.exprs(params);
            }
            Expr::UnaryExpr { expr, .. } => self.expr(expr),
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. } => self.exprs([lhs, rhs]),
            Expr::AssignExpr { op, lhs, rhs, .. } => {
                self.bind(lhs);
                if *op == AssignOp::Eq {
                    self.bind(rhs);
                }
                self.exprs([lhs, rhs]);
            }
            Expr::Membership { key, value, collection, .. } => {
                self.exprs(key.iter().chain([value, collection]));
            }
        }
    }

    /// A comprehension has a value even if a name in it has none.
    fn comprehension<'e>(&mut self, terms: impl IntoIterator<Item = &'e Ref<Expr>>, query: &Query) {
        let outer = std::mem::take(&mut self.is_before_not);
        self.exprs(terms);
        self.query(query);
        self.is_before_not = outer;
    }

    /// Visits the parts of a reference: its base and the indices in brackets.
    fn reference_parts(&mut self, reference: &Expr) {
        match reference {
            Expr::RefDot { refr, .. } => self.reference_parts(refr),
            Expr::RefBrack { refr, index, .. } => {
                self.reference_parts(refr);
                // An unbound variable in brackets iterates over all keys.
                self.bind(index);
                self.loops += usize::from(literal(index).is_none());
                self.expr(index);
            }
            Expr::Var { .. } => {}
            base => self.expr(base),
        }
    }

    /// Records the variables that a pattern binds.
    fn bind(&mut self, pattern: &Expr) {
        match pattern {
            Expr::Var { span, .. } => {
                self.bound.insert(span.text().to_owned());
            }
            Expr::Array { items, .. } => self.bind_all(items),
            Expr::Object { fields, .. } => self.bind_all(fields.iter().map(|(_, _, value)| value)),
            _ => {}
        }
    }

    fn bind_all<'e>(&mut self, patterns: impl IntoIterator<Item = &'e Ref<Expr>>) {
        for pattern in patterns {
            self.bind(pattern);
        }
    }

    /// Records `expr` as a reference. An expression without a name, such as `[1, 2][i]`, is none.
    fn add_reference(&mut self, expr: &Expr, kind: ReferenceKind) {
        let path = path_of(expr).unwrap_or_default();
        if !path.is_empty() || !matches!(kind, ReferenceKind::Read) {
            let location = location_of(start_of(expr).span());
            self.references.push(Reference { location, path, kind, is_before_not: self.is_before_not });
        }
    }
}

/// The base of a reference. The span of the reference itself starts at the last dot.
fn start_of(expr: &Expr) -> &Expr {
    match expr {
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => start_of(refr),
        start => start,
    }
}
