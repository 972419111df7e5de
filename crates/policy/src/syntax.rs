//! The outline of a policy file: the parts of its syntax tree that the checks need.
//!
//! regorus exposes its syntax tree under an unstable name, so only this module uses it. The outline contains the rules
//! with their heads and every name that a rule references. The matches list every kind of node, so that a new kind in
//! regorus is a compile error here.

mod collect;

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Expr, Import, Module, Ref, Rule as Node, RuleHead, Span};
use serde_json::Value;

use crate::location::PolicyLocation;

/// One file of a bundle.
#[derive(Debug)]
pub(crate) struct File {
    /// The package it adds to, as `["data", "countersign"]`.
    pub(crate) package: Vec<String>,
    /// The location of the package declaration.
    pub(crate) location: PolicyLocation,
    /// Imported paths by alias.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) is_test: bool,
}

/// One definition of a rule; a rule may have several.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) location: PolicyLocation,
    /// The name below the package. It nearly always has one part.
    pub(crate) name: Vec<Part>,
    pub(crate) head: Head,
    /// Every name that the rule references.
    pub(crate) references: Vec<Reference>,
    /// The variables that the rule binds.
    pub(crate) bound: BTreeSet<String>,
    /// The nesting depth of its expressions.
    pub(crate) depth: usize,
    /// Whether it has a value for every input.
    pub(crate) is_total: bool,
}

#[derive(Debug)]
pub(crate) enum Head {
    /// `name := value`, with the value if it is a literal.
    Complete(Option<Value>),
    /// `name contains member`, with the fields of the member if it is an object literal.
    Member(Option<Vec<Field>>),
    /// `name(arguments)`.
    Function,
    /// `default name := value`.
    Default,
}

/// A field of an object literal in a head.
#[derive(Debug)]
pub(crate) struct Field {
    /// Present if it is a literal.
    pub(crate) name: Option<String>,
    pub(crate) location: PolicyLocation,
    /// Present if it is a literal.
    pub(crate) value: Option<Value>,
}

/// A name that a rule references.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) location: PolicyLocation,
    pub(crate) path: Vec<Part>,
    pub(crate) kind: ReferenceKind,
    /// Whether it is an operand of `not` that OPA evaluates before `not`.
    pub(crate) is_before_not: bool,
}

#[derive(Debug)]
pub(crate) enum ReferenceKind {
    Read,
    /// A call, with the first argument if it is a literal.
    Call(Option<Value>),
    /// Replaced by `with`.
    With,
}

/// A part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A literal name.
    Name(String),
    /// Computed during evaluation.
    Dynamic,
}

impl Part {
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Dynamic => None,
        }
    }
}

/// The literal parts of `path` before the first dynamic part.
pub(crate) fn literal_prefix(path: &[Part]) -> Vec<&str> {
    path.iter().map_while(Part::name).collect()
}

pub(crate) fn outline(module: &Module, is_test: bool) -> File {
    let package = path_of(&module.package.refr).unwrap_or_default();
    let package = literal_prefix(&package).into_iter().map(str::to_owned);
    File {
        package: std::iter::once("data".to_owned()).chain(package).collect(),
        location: location_of(&module.package.span),
        imports: module.imports.iter().filter_map(import).collect(),
        rules: module.policy.iter().map(|rule| rule_of(rule)).collect(),
        is_test,
    }
}

fn import(import: &Import) -> Option<(String, Vec<String>)> {
    let path: Vec<String> = literal_prefix(&path_of(&import.refr)?).into_iter().map(str::to_owned).collect();
    let alias = match &import.r#as {
        Some(alias) => alias.text().to_owned(),
        None => path.last()?.clone(),
    };
    Some((alias, path))
}

fn rule_of(node: &Node) -> Rule {
    let (name, head) = match node {
        Node::Spec { head, .. } => head_of(head),
        Node::Default { refr, .. } => (refr, Head::Default),
    };
    let collected = collect::collect(node);
    Rule {
        location: location_of(node.span()),
        name: path_of(name).unwrap_or_default(),
        head,
        references: collected.references,
        bound: collected.bound,
        depth: collected.depth,
        is_total: is_total(node),
    }
}

/// Whether a rule has a value for every input: a set, a default, or a constant without a condition.
fn is_total(node: &Node) -> bool {
    match node {
        Node::Default { .. } | Node::Spec { head: RuleHead::Set { .. }, .. } => true,
        Node::Spec { head: RuleHead::Compr { assign, .. }, bodies, .. } => {
            bodies.is_empty() && assign.as_ref().is_some_and(|assign| is_constant(&assign.value))
        }
        Node::Spec { head: RuleHead::Func { .. }, .. } => false,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Array { items, .. } | Expr::Set { items, .. } => items.iter().all(|item| is_constant(item)),
        Expr::Object { fields, .. } => {
            fields.iter().all(|(_, key, value)| is_constant(key) && is_constant(value))
        }
        Expr::ArrayCompr { .. } | Expr::SetCompr { .. } | Expr::ObjectCompr { .. } => true,
        scalar => literal(scalar).is_some(),
    }
}

fn head_of(head: &RuleHead) -> (&Ref<Expr>, Head) {
    match head {
        RuleHead::Compr { refr, assign, .. } => {
            (refr, Head::Complete(assign.as_ref().and_then(|assign| literal(&assign.value))))
        }
        RuleHead::Set { refr, key, .. } => (refr, Head::Member(key.as_ref().and_then(|key| fields_of(key)))),
        RuleHead::Func { refr, .. } => (refr, Head::Function),
    }
}

fn fields_of(member: &Expr) -> Option<Vec<Field>> {
    let Expr::Object { fields, .. } = member else { return None };
    let field = |(_, name, value): &(Span, Ref<Expr>, Ref<Expr>)| Field {
        name: literal(name).and_then(|name| name.as_str().map(str::to_owned)),
        location: location_of(name.span()),
        value: literal(value),
    };
    Some(fields.iter().map(field).collect())
}

/// The value of a literal expression.
fn literal(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::String { value, .. }
        | Expr::RawString { value, .. }
        | Expr::Number { value, .. }
        | Expr::Bool { value, .. }
        | Expr::Null { value, .. } => serde_json::to_value(value).ok(),
        Expr::Array { items, .. } => items.iter().map(|item| literal(item)).collect(),
        _ => None,
    }
}

/// The path of a variable or reference expression.
fn path_of(expr: &Expr) -> Option<Vec<Part>> {
    match expr {
        Expr::Var { span, .. } => Some(vec![Part::Name(span.text().to_owned())]),
        Expr::RefDot { refr, field: (span, _), .. } => extend_path(refr, Part::Name(span.text().to_owned())),
        Expr::RefBrack { refr, index, .. } => match literal(index) {
            Some(Value::String(name)) => extend_path(refr, Part::Name(name)),
            _ => extend_path(refr, Part::Dynamic),
        },
        _ => None,
    }
}

fn extend_path(base: &Expr, part: Part) -> Option<Vec<Part>> {
    let mut path = path_of(base)?;
    path.push(part);
    Some(path)
}

fn location_of(span: &Span) -> PolicyLocation {
    PolicyLocation { file: span.source.get_path().clone(), line: span.line, column: span.col }
}
