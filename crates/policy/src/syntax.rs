//! What is written in a bundle, as far as it can be known without running it.
//!
//! regorus shows its syntax tree under a name that promises no stability, so this module is the only one that
//! looks at it. It takes from each file what the checks need: the rules with their heads, and every name that
//! a rule mentions. Its matches list every kind of node, so that a version of regorus with a new one does not
//! compile until somebody has thought about it.

mod walk;

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Expr, Import, Module, Ref, Rule as Node, RuleHead, Span};
use serde_json::Value;

use crate::place::Place;

/// One file of a bundle.
#[derive(Debug)]
pub(crate) struct File {
    /// The package it adds to, as `["data", "countersign"]`.
    pub(crate) package: Vec<String>,
    /// Where that is said.
    pub(crate) place: Place,
    /// The names that imports have given to other places.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    /// Its rules, in their order.
    pub(crate) rules: Vec<Rule>,
    /// Whether it holds tests.
    pub(crate) is_test: bool,
}

/// One definition of a rule; a rule may have several.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Where it begins.
    pub(crate) place: Place,
    /// Its name below the package: one part for nearly every rule.
    pub(crate) name: Vec<Part>,
    /// What kind of rule it is.
    pub(crate) head: Head,
    /// Every name in it.
    pub(crate) mentions: Vec<Mention>,
    /// The variables that it gives a value to.
    pub(crate) bound: BTreeSet<String>,
    /// How deep its expressions are nested.
    pub(crate) depth: usize,
}

/// What kind of rule it is.
#[derive(Debug)]
pub(crate) enum Head {
    /// `name := value`; the value, where it is written out.
    Complete(Option<Value>),
    /// `name contains member`; the fields of the member, where it is written as an object.
    Member(Option<Vec<Field>>),
    /// `name(arguments)`.
    Function,
    /// `default name := value`.
    Default,
}

/// A field of an object in a head.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name, where that is written out.
    pub(crate) name: Option<String>,
    /// Where it stands.
    pub(crate) place: Place,
    /// Its value, where that is written out.
    pub(crate) value: Option<Value>,
}

/// A name in a rule.
#[derive(Debug)]
pub(crate) struct Mention {
    /// Where it stands.
    pub(crate) place: Place,
    /// Its parts.
    pub(crate) path: Vec<Part>,
    /// What is done with it.
    pub(crate) sort: Sort,
}

/// What is done with a name.
#[derive(Debug)]
pub(crate) enum Sort {
    /// It is read.
    Read,
    /// It is called; the first argument, where that is written out.
    Call(Option<Value>),
    /// It stands for something else, by `with`.
    With,
}

/// A part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A name that is written out.
    Name(String),
    /// Known only when the rule runs.
    Open,
}

impl Part {
    /// The name, if it is written out.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Open => None,
        }
    }
}

/// The parts of `path` up to the first that is only known when the rule runs.
pub(crate) fn known(path: &[Part]) -> Vec<&str> {
    path.iter().map_while(Part::name).collect()
}

/// The outline of a parsed file.
pub(crate) fn outline(module: &Module, is_test: bool) -> File {
    let package = path_of(&module.package.refr).unwrap_or_default();
    let package = known(&package).into_iter().map(str::to_owned);
    File {
        package: std::iter::once("data".to_owned()).chain(package).collect(),
        place: place_of(&module.package.span),
        imports: module.imports.iter().filter_map(import).collect(),
        rules: module.policy.iter().map(|rule| rule_of(rule)).collect(),
        is_test,
    }
}

fn import(import: &Import) -> Option<(String, Vec<String>)> {
    let path: Vec<String> = known(&path_of(&import.refr)?).into_iter().map(str::to_owned).collect();
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
    let found = walk::rule(node);
    Rule {
        place: place_of(node.span()),
        name: path_of(name).unwrap_or_default(),
        head,
        mentions: found.mentions,
        bound: found.bound,
        depth: found.depth,
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
        place: place_of(name.span()),
        value: literal(value),
    };
    Some(fields.iter().map(field).collect())
}

/// The value of an expression that is written out.
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

/// The path that an expression names, if it names one.
fn path_of(expr: &Expr) -> Option<Vec<Part>> {
    match expr {
        Expr::Var { span, .. } => Some(vec![Part::Name(span.text().to_owned())]),
        Expr::RefDot { refr, field: (span, _), .. } => extended(refr, Part::Name(span.text().to_owned())),
        Expr::RefBrack { refr, index, .. } => match literal(index) {
            Some(Value::String(name)) => extended(refr, Part::Name(name)),
            _ => extended(refr, Part::Open),
        },
        _ => None,
    }
}

fn extended(base: &Expr, part: Part) -> Option<Vec<Part>> {
    let mut path = path_of(base)?;
    path.push(part);
    Some(path)
}

fn place_of(span: &Span) -> Place {
    Place { file: span.source.get_path().clone(), line: span.line, column: span.col }
}
