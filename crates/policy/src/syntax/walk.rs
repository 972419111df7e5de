//! Every expression of a rule, once.

use std::collections::BTreeSet;

use regorus::unstable::{AssignOp, Expr, Literal, LiteralStmt, Query, Ref, Rule, RuleAssign, RuleHead};

use super::{Mention, Sort, literal, path_of, place_of};

/// What a walk has found.
#[derive(Default)]
pub(super) struct Found {
    /// Every name.
    pub(super) mentions: Vec<Mention>,
    /// The variables that the rule gives a value to.
    pub(super) bound: BTreeSet<String>,
    /// How deep the deepest expression is nested.
    pub(super) depth: usize,
    /// How deep in expressions the walk is. What may be parsed at all bounds it.
    nested: usize,
    /// How many loops the walk is in.
    loops: usize,
}

/// Every name in `rule`, its own aside.
pub(super) fn rule(rule: &Rule) -> Found {
    let mut found = Found::default();
    match rule {
        Rule::Spec { head, bodies, .. } => {
            found.head(head);
            for body in bodies {
                found.assigned(body.assign.as_ref());
                found.query(&body.query);
            }
        }
        Rule::Default { args, value, .. } => {
            found.exprs(args);
            found.expr(value);
        }
    }
    found
}

impl Found {
    fn head(&mut self, head: &RuleHead) {
        match head {
            RuleHead::Compr { assign, .. } => self.assigned(assign.as_ref()),
            RuleHead::Set { key, .. } => self.exprs(key),
            RuleHead::Func { args, assign, .. } => {
                self.bind_all(args);
                self.exprs(args);
                self.assigned(assign.as_ref());
            }
        }
    }

    fn assigned(&mut self, assign: Option<&RuleAssign>) {
        if let Some(assign) = assign {
            self.expr(&assign.value);
        }
    }

    fn query(&mut self, query: &Query) {
        // The evaluator runs the rest of a query within each of its loops, so a loop is a level of its own.
        let outer = self.loops;
        for statement in &query.stmts {
            self.statement(statement);
        }
        self.loops = outer;
    }

    fn statement(&mut self, statement: &LiteralStmt) {
        match &statement.literal {
            Literal::SomeVars { vars, .. } => self.bound.extend(vars.iter().map(|var| var.text().to_owned())),
            Literal::SomeIn { key, value, collection, .. } => {
                self.bind_all(key.iter().chain([value]));
                self.exprs(key.iter().chain([value, collection]));
                self.loops += 1;
            }
            Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.expr(expr),
            Literal::Every { key, value, domain, query, .. } => {
                self.bound.extend(key.iter().chain([value]).map(|var| var.text().to_owned()));
                self.expr(domain);
                self.query(query);
            }
        }
        for with in &statement.with_mods {
            self.mention(&with.refr, Sort::With);
            self.expr(&with.r#as);
        }
    }

    fn exprs<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Ref<Expr>>) {
        for expr in exprs {
            self.expr(expr);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        self.nested += 1;
        self.depth = self.depth.max(self.nested + self.loops);
        self.inside(expr);
        self.nested -= 1;
    }

    fn inside(&mut self, expr: &Expr) {
        match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. } => {}
            Expr::Var { .. } | Expr::RefDot { .. } | Expr::RefBrack { .. } => {
                self.mention(expr, Sort::Read);
                self.below(expr);
            }
            Expr::Array { items, .. } | Expr::Set { items, .. } => self.exprs(items),
            Expr::Object { fields, .. } => {
                self.exprs(fields.iter().flat_map(|(_, key, value)| [key, value]));
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.expr(term);
                self.query(query);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.exprs([key, value]);
                self.query(query);
            }
            Expr::Call { fcn, params, .. } => {
                self.mention(fcn, Sort::Call(params.first().and_then(|first| literal(first))));
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

    /// What a reference is made of: the indices in its brackets, and what it begins with.
    fn below(&mut self, reference: &Expr) {
        match reference {
            Expr::RefDot { refr, .. } => self.below(refr),
            Expr::RefBrack { refr, index, .. } => {
                self.below(refr);
                // A variable in brackets that has no value yet takes every value that fits.
                self.bind(index);
                self.loops += usize::from(literal(index).is_none());
                self.expr(index);
            }
            Expr::Var { .. } => {}
            base => self.expr(base),
        }
    }

    /// Notes the variables to which a pattern gives values.
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

    /// Notes the name that `expr` is. One that begins with no name, such as `[1, 2][i]`, is none.
    fn mention(&mut self, expr: &Expr, sort: Sort) {
        let path = path_of(expr).unwrap_or_default();
        if !path.is_empty() || !matches!(sort, Sort::Read) {
            self.mentions.push(Mention { place: place_of(start_of(expr).span()), path, sort });
        }
    }
}

/// What a reference begins with: its own span begins at the last dot.
fn start_of(expr: &Expr) -> &Expr {
    match expr {
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => start_of(refr),
        start => start,
    }
}
