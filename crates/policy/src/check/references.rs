//! The names that rules reference: each must exist, and no rule may depend on itself.
//!
//! In Rego, an undefined name makes its rule undefined. A deny rule with a misspelled name would never match, without any
//! error, so undefined names are refused here.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::builtins;
use crate::error::{PolicyError, PolicyErrorKind};
use crate::input::{CONTAINERS, PATHS};
use crate::syntax::{File, Part, Reference, ReferenceKind, Rule, literal_prefix};

use super::functions;
use super::graph::Graph;

/// Each level takes a few stack frames in the evaluator, and a worker thread has two megabytes of stack.
pub(crate) const DEPTH_MAX: usize = 96;

/// Checks every reference in `files`.
pub(crate) fn check(files: &[File], reads: &BTreeSet<String>) -> Result<(), PolicyError> {
    let mut graph = Graph::new(files);
    for file in files {
        for (rule, reference) in file.rules.iter().flat_map(all_references) {
            let target = resolve(file, rule, reference, &graph);
            check_target(file, reference, &target, reads)?;
            check_before_not(reference, &target, &graph)?;
            if let Target::Rules(rules, _) = target {
                graph.connect(file, rule, rules);
            }
        }
    }
    graph.check_depth(DEPTH_MAX)
}

fn all_references(rule: &Rule) -> impl Iterator<Item = (&Rule, &Reference)> {
    rule.references.iter().map(move |reference| (rule, reference))
}

/// The definition that a reference resolves to.
enum Target {
    /// A path in the input, up to its first dynamic part.
    Input(Vec<String>),
    /// A path in the input that `with` replaces.
    ReplacedInput(Vec<String>),
    /// Rules of the bundle, and the number of parts of the path.
    Rules(Vec<usize>, usize),
    Undefined(Vec<String>),
    /// A function that the bundle does not define.
    Builtin(String),
    /// A variable of the rule.
    Local,
}

fn resolve(file: &File, rule: &Rule, reference: &Reference, graph: &Graph) -> Target {
    let path = resolve_alias(file, &reference.path);
    let names: Vec<String> = literal_prefix(&path).into_iter().map(str::to_owned).collect();
    match (names.first().map(String::as_str), &reference.kind) {
        (Some("input"), ReferenceKind::Read) => Target::Input(names),
        (Some("input"), ReferenceKind::With) => Target::ReplacedInput(names),
        (Some("data"), _) => rules_or_undefined(graph.find(&names, file.is_test), names),
        (Some(_), kind) => {
            let full: Vec<String> = file.package.iter().chain(&names).cloned().collect();
            match (graph.find_rule(&full), kind) {
                (found, _) if !found.is_empty() => Target::Rules(found, full.len()),
                (_, ReferenceKind::Call(_)) => Target::Builtin(names.join(".")),
                (_, ReferenceKind::Read) if is_local(rule, &names) => Target::Local,
                (_, ReferenceKind::Read | ReferenceKind::With) => Target::Undefined(names),
            }
        }
        (None, ReferenceKind::Read) => Target::Local,
        (None, ReferenceKind::Call(_) | ReferenceKind::With) => Target::Undefined(names),
    }
}

/// Whether the rule binds the name. `_` and generated names for it match any value.
fn is_local(rule: &Rule, names: &[String]) -> bool {
    names.first().is_some_and(|first| first.starts_with('_') || rule.bound.contains(first))
}

fn rules_or_undefined(found: Vec<usize>, names: Vec<String>) -> Target {
    if found.is_empty() { Target::Undefined(names) } else { Target::Rules(found, names.len()) }
}

/// The path with an import alias replaced by the imported path.
fn resolve_alias(file: &File, path: &[Part]) -> Vec<Part> {
    let import = path.first().and_then(Part::name).and_then(|first| file.imports.get(first));
    match import {
        Some(target) => target.iter().cloned().map(Part::Name).chain(path.iter().skip(1).cloned()).collect(),
        None => path.to_vec(),
    }
}

fn check_target(
    file: &File,
    reference: &Reference,
    target: &Target,
    reads: &BTreeSet<String>,
) -> Result<(), PolicyError> {
    let kind = match (target, &reference.kind) {
        (Target::ReplacedInput(names), _) if file.is_test => unknown_input(names, None),
        (_, ReferenceKind::With) => Some(PolicyErrorKind::With),
        // A test may read any value, because it supplies the input.
        (Target::Input(names), _) => unknown_input(names, (!file.is_test).then_some(reads)),
        (Target::Builtin(name), ReferenceKind::Call(format)) => forbidden_call(name, format.as_ref()),
        (Target::Undefined(names), _) => Some(PolicyErrorKind::UnknownName { path: names.join(".") }),
        (Target::ReplacedInput(_) | Target::Builtin(_) | Target::Rules(..) | Target::Local, _) => None,
    };
    kind.map_or(Ok(()), |kind| Err(PolicyError::at(&reference.location, kind)))
}

/// Refuses an operand of `not` that may have no value. OPA evaluates it before `not`, and then the statement is
/// undefined. Regorus evaluates it inside, and then the statement is true.
fn check_before_not(reference: &Reference, target: &Target, graph: &Graph) -> Result<(), PolicyError> {
    let is_plain = literal_prefix(&reference.path).len() == reference.path.len();
    let is_total = match target {
        Target::Input(names) => is_plain && is_always_present(names),
        Target::Rules(rules, parts) => is_plain && graph.is_total(rules, *parts),
        Target::Builtin(name) => !functions::is_partial(name),
        Target::Local => reference.path.len() == 1,
        Target::ReplacedInput(_) | Target::Undefined(_) => true,
    };
    if is_total || !reference.is_before_not {
        return Ok(());
    }
    Err(PolicyError::at(
        &reference.location,
        PolicyErrorKind::BeforeNot { path: render_reference(reference) },
    ))
}

fn render_reference(reference: &Reference) -> String {
    let part = |part: &Part| part.name().unwrap_or("…").to_owned();
    let path = reference.path.iter().map(part).collect::<Vec<_>>().join(".");
    if matches!(reference.kind, ReferenceKind::Call(_)) { format!("{path}(…)") } else { path }
}

/// Whether every input has a value at this path.
fn is_always_present(names: &[String]) -> bool {
    let below = names.get(1..).unwrap_or_default();
    PATHS.iter().any(|path| {
        let parts: Vec<&str> = path.split('.').collect();
        below.len() <= parts.len() && parts.iter().zip(below).all(|(part, name)| part == name)
    })
}

fn forbidden_call(name: &str, first: Option<&Value>) -> Option<PolicyErrorKind> {
    if !functions::is_allowed(name) {
        return Some(PolicyErrorKind::Function { name: name.to_owned() });
    }
    if let ("regex.match", Some(Value::String(text))) = (name, first) {
        return builtins::pattern(text).err().map(|why| PolicyErrorKind::Pattern { why: why.to_string() });
    }
    if let ("glob.match", Some(Value::String(text))) = (name, first)
        && !functions::is_plain_glob(text)
    {
        return Some(PolicyErrorKind::Glob);
    }
    let allowed = name != "sprintf" || first.and_then(Value::as_str).is_some_and(functions::has_plain_verbs);
    (!allowed).then_some(PolicyErrorKind::Format)
}

/// The error for an `input` path with the literal parts `names`, if it has one.
fn unknown_input(names: &[String], reads: Option<&BTreeSet<String>>) -> Option<PolicyErrorKind> {
    let below = names.get(1..).unwrap_or_default();
    if let ([action, values, path, ..], Some(reads)) = (below, reads)
        && (action.as_str(), values.as_str()) == ("action", "values")
        && !reads.contains(path)
    {
        return Some(PolicyErrorKind::NotRead { path: path.clone() });
    }
    let exists = PATHS.iter().any(|path| exists_at(path, below));
    (!exists).then(|| PolicyErrorKind::UnknownInput { path: below.join("."), known: available_paths(below) })
}

/// Whether `below` is `path`, a prefix of it, or lies inside it if it is a container.
fn exists_at(path: &str, below: &[String]) -> bool {
    let parts: Vec<&str> = path.split('.').collect();
    parts.iter().zip(below).all(|(part, name)| part == name)
        && (below.len() <= parts.len() || CONTAINERS.contains(&path))
}

/// The valid paths with the same first part, or the top-level names if there are none.
fn available_paths(below: &[String]) -> String {
    let first = below.first().map(String::as_str).unwrap_or_default();
    let near = |path: &&&str| path.split('.').next() == Some(first);
    let listed: Vec<String> = match PATHS.iter().filter(near).count() {
        0 => ["action", "step", "run", "caps"].iter().map(|part| format!("`input.{part}`")).collect(),
        _ => PATHS.iter().filter(near).map(|path| format!("`input.{path}`")).collect(),
    };
    listed.join(", ")
}
