//! The dependency graph of rules.
//!
//! The evaluator recurses as deep as rules depend on each other. A function that calls itself overflows the stack, which
//! aborts the process. So a bundle whose rules form a cycle or are nested too deep is refused before evaluation.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{PolicyError, PolicyErrorKind};
use crate::location::PolicyLocation;
use crate::syntax::{File, Rule, literal_prefix};

/// The rules of a bundle and their dependencies.
pub(crate) struct Graph {
    nodes: Vec<Node>,
    by_path: BTreeMap<Vec<String>, usize>,
}

/// All definitions of one rule.
struct Node {
    path: Vec<String>,
    location: PolicyLocation,
    is_test: bool,
    depth: usize,
    /// Whether it has a value for every input.
    is_total: bool,
    dependencies: BTreeSet<usize>,
}

impl Graph {
    /// The rules of `files`, without dependencies.
    pub(crate) fn new(files: &[File]) -> Self {
        let mut graph = Self { nodes: Vec::new(), by_path: BTreeMap::new() };
        for (file, rule) in files.iter().flat_map(|file| file.rules.iter().map(move |rule| (file, rule))) {
            graph.add(file, rule);
        }
        graph
    }

    fn add(&mut self, file: &File, rule: &Rule) {
        let path = path_of(file, rule);
        let index = *self.by_path.entry(path.clone()).or_insert(self.nodes.len());
        match self.nodes.get_mut(index) {
            Some(node) => {
                node.depth = node.depth.max(rule.depth);
                node.is_total |= rule.is_total;
            }
            None => self.nodes.push(Node {
                path,
                location: rule.location.clone(),
                is_test: file.is_test,
                depth: rule.depth,
                is_total: rule.is_total,
                dependencies: BTreeSet::new(),
            }),
        }
    }

    /// The rules at `path`, above it or below it. Only tests can reference rules of tests.
    pub(crate) fn find(&self, path: &[String], from_test: bool) -> Vec<usize> {
        let related = |node: &Node| node.path.iter().zip(path).all(|(one, other)| one == other);
        self.indices(|node| related(node) && (from_test || !node.is_test))
    }

    /// The rules at `path`, above it or below it, in any file.
    pub(crate) fn find_rule(&self, path: &[String]) -> Vec<usize> {
        self.indices(|node| path.starts_with(&node.path) || node.path.starts_with(path))
    }

    fn indices(&self, keep: impl Fn(&Node) -> bool) -> Vec<usize> {
        self.nodes.iter().enumerate().filter(|(_, node)| keep(node)).map(|(index, _)| index).collect()
    }

    /// Whether `rules` is one rule that has a value for every input, and a path of `parts` parts is the whole rule.
    pub(crate) fn is_total(&self, rules: &[usize], parts: usize) -> bool {
        let is_whole = |node: &Node| node.is_total && node.path.len() == parts;
        matches!(rules, [index] if self.nodes.get(*index).is_some_and(is_whole))
    }

    /// Records that `rule` of `file` depends on the rules `targets`.
    pub(crate) fn connect(&mut self, file: &File, rule: &Rule, targets: Vec<usize>) {
        let index = self.by_path.get(&path_of(file, rule)).copied();
        if let Some(node) = index.and_then(|index| self.nodes.get_mut(index)) {
            node.dependencies.extend(targets);
        }
    }

    /// Refuses cycles and rules that are nested deeper than `depth_max`.
    pub(crate) fn check_depth(&self, depth_max: usize) -> Result<(), PolicyError> {
        let mut left: BTreeMap<usize, &BTreeSet<usize>> =
            self.nodes.iter().enumerate().map(|(index, node)| (index, &node.dependencies)).collect();
        let mut depths: BTreeMap<usize, usize> = BTreeMap::new();
        // Each round resolves the rules whose dependencies are resolved, so there are as many rounds as levels.
        while !left.is_empty() {
            let ready: Vec<usize> = left
                .iter()
                .filter(|(_, dependencies)| dependencies.iter().all(|rule| depths.contains_key(rule)))
                .map(|(i, _)| *i)
                .collect();
            if ready.is_empty() {
                return Err(self.cycle(&left));
            }
            for index in ready {
                depths.insert(index, self.depth(index, &depths, depth_max)?);
                left.remove(&index);
            }
        }
        Ok(())
    }

    fn depth(
        &self,
        index: usize,
        depths: &BTreeMap<usize, usize>,
        depth_max: usize,
    ) -> Result<usize, PolicyError> {
        let Some(node) = self.nodes.get(index) else { return Ok(0) };
        let below = node.dependencies.iter().filter_map(|rule| depths.get(rule)).max().copied().unwrap_or(0);
        match below + node.depth + 1 {
            depth if depth > depth_max => {
                Err(PolicyError::at(&node.location, PolicyErrorKind::TooDeep { name: node.name() }))
            }
            depth => Ok(depth),
        }
    }

    /// The error for a cycle among the unresolved rules `left`.
    fn cycle(&self, left: &BTreeMap<usize, &BTreeSet<usize>>) -> PolicyError {
        // Following unresolved dependencies enters a cycle after at most `left.len()` steps.
        let mut at = left.keys().next().copied().unwrap_or(0);
        for _ in 0..left.len() {
            let next = left.get(&at).and_then(|rules| rules.iter().find(|rule| left.contains_key(rule)));
            at = next.copied().unwrap_or(at);
        }
        match self.nodes.get(at) {
            Some(node) => PolicyError::at(&node.location, PolicyErrorKind::Recursion { name: node.name() }),
            None => PolicyError::of_bundle(PolicyErrorKind::Recursion { name: String::new() }),
        }
    }
}

impl Node {
    fn name(&self) -> String {
        self.path.last().cloned().unwrap_or_default()
    }
}

fn path_of(file: &File, rule: &Rule) -> Vec<String> {
    file.package.iter().cloned().chain(literal_prefix(&rule.name).into_iter().map(str::to_owned)).collect()
}
