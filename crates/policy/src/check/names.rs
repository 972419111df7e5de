//! The names that rules mention: each must be something, and none may lead back to itself.
//!
//! In Rego a name that is not there makes its rule silent. A deny rule with a misspelt name would never deny,
//! and nobody would notice, so here such a name is refused.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::error::{BundleError, Problem};
use crate::input::{OPEN, PATHS};
use crate::syntax::{File, Mention, Part, Rule, Sort, known};

use super::functions;
use super::graph::Graph;

/// Each level is a few calls deep in the evaluator, and a worker's thread has two megabytes of stack.
pub(crate) const DEPTH_MAX: usize = 96;

/// Looks at every name in `files`.
pub(crate) fn check(files: &[File], reads: &BTreeSet<String>) -> Result<(), BundleError> {
    let mut graph = Graph::of(files);
    for file in files {
        for (rule, mention) in file.rules.iter().flat_map(|rule| rule.mentions.iter().map(move |m| (rule, m)))
        {
            let meant = resolve(file, rule, mention, &graph);
            judge(file, mention, &meant, reads)?;
            if let Meant::Defined(targets) = meant {
                graph.connect(file, rule, targets);
            }
        }
    }
    graph.check_depth(DEPTH_MAX)
}

/// What a name stands for.
enum Meant {
    /// Something in the input, by the part of its path that is known.
    Input(Vec<String>),
    /// Something in the input that a test replaces.
    Replaced(Vec<String>),
    /// Rules of the bundle.
    Defined(Vec<usize>),
    /// Nothing that anybody has defined.
    Nothing(Vec<String>),
    /// A function that is not of the bundle.
    Function(String),
    /// A variable of the rule itself.
    Local,
}

fn resolve(file: &File, rule: &Rule, mention: &Mention, graph: &Graph) -> Meant {
    let path = unaliased(file, &mention.path);
    let names: Vec<String> = known(&path).into_iter().map(str::to_owned).collect();
    match (names.first().map(String::as_str), &mention.sort) {
        (Some("input"), Sort::Read) => Meant::Input(names),
        (Some("input"), Sort::With) => Meant::Replaced(names),
        (Some("data"), _) => defined(graph.find(&names, file.is_test), names),
        (Some(_), sort) => {
            let full: Vec<String> = file.package.iter().chain(&names).cloned().collect();
            match (graph.find_rule(&full), sort) {
                (found, _) if !found.is_empty() => Meant::Defined(found),
                (_, Sort::Call(_)) => Meant::Function(names.join(".")),
                (_, Sort::Read) if is_local(rule, &names) => Meant::Local,
                (_, Sort::Read | Sort::With) => Meant::Nothing(names),
            }
        }
        (None, Sort::Read) => Meant::Local,
        (None, Sort::Call(_) | Sort::With) => Meant::Nothing(names),
    }
}

/// Whether the rule itself gives the name a value. `_` and the names that stand for it may have any.
fn is_local(rule: &Rule, names: &[String]) -> bool {
    names.first().is_some_and(|first| first.starts_with('_') || rule.bound.contains(first))
}

fn defined(found: Vec<usize>, names: Vec<String>) -> Meant {
    if found.is_empty() { Meant::Nothing(names) } else { Meant::Defined(found) }
}

/// The path with the name that an import has given replaced by what it stands for.
fn unaliased(file: &File, path: &[Part]) -> Vec<Part> {
    let import = path.first().and_then(Part::name).and_then(|first| file.imports.get(first));
    match import {
        Some(target) => target.iter().cloned().map(Part::Name).chain(path.iter().skip(1).cloned()).collect(),
        None => path.to_vec(),
    }
}

fn judge(file: &File, mention: &Mention, meant: &Meant, reads: &BTreeSet<String>) -> Result<(), BundleError> {
    let problem = match (meant, &mention.sort) {
        (Meant::Replaced(names), _) if file.is_test => unknown_input(names, None),
        (_, Sort::With) => Some(Problem::With),
        // A test may read whatever value it has made up.
        (Meant::Input(names), _) => unknown_input(names, (!file.is_test).then_some(reads)),
        (Meant::Function(name), Sort::Call(format)) => forbidden_call(name, format.as_ref()),
        (Meant::Nothing(names), _) => Some(Problem::UnknownName { path: names.join(".") }),
        (Meant::Replaced(_) | Meant::Function(_) | Meant::Defined(_) | Meant::Local, _) => None,
    };
    problem.map_or(Ok(()), |problem| Err(BundleError::at(&mention.place, problem)))
}

fn forbidden_call(name: &str, first: Option<&Value>) -> Option<Problem> {
    if !functions::is_allowed(name) {
        return Some(Problem::Function { name: name.to_owned() });
    }
    let plain = name != "sprintf" || first.and_then(Value::as_str).is_some_and(functions::is_plain);
    (!plain).then_some(Problem::Format)
}

/// What is wrong with a path below `input`, of which `names` is the part that is known.
fn unknown_input(names: &[String], reads: Option<&BTreeSet<String>>) -> Option<Problem> {
    let below = names.get(1..).unwrap_or_default();
    if let ([action, values, path, ..], Some(reads)) = (below, reads)
        && (action.as_str(), values.as_str()) == ("action", "values")
        && !reads.contains(path)
    {
        return Some(Problem::NotRead { path: path.clone() });
    }
    let there = PATHS.iter().any(|path| is_there(path, below));
    (!there).then(|| Problem::UnknownInput { path: below.join("."), known: neighbours(below) })
}

/// Whether `below` leads to `path`, or is on the way to it, or lies in it where it is open.
fn is_there(path: &str, below: &[String]) -> bool {
    let parts: Vec<&str> = path.split('.').collect();
    parts.iter().zip(below).all(|(part, name)| part == name)
        && (below.len() <= parts.len() || OPEN.contains(&path))
}

/// What could have been meant: everything below the first part that is right.
fn neighbours(below: &[String]) -> String {
    let first = below.first().map(String::as_str).unwrap_or_default();
    let near = |path: &&&str| path.split('.').next() == Some(first);
    let listed: Vec<String> = match PATHS.iter().filter(near).count() {
        0 => ["action", "step", "run", "caps"].iter().map(|part| format!("`input.{part}`")).collect(),
        _ => PATHS.iter().filter(near).map(|path| format!("`input.{path}`")).collect(),
    };
    listed.join(", ")
}
