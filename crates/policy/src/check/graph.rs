//! Which rule needs which.
//!
//! The evaluator goes as deep as rules need each other, and notices a function that calls itself only when
//! the stack is gone and the process with it. So a bundle whose rules go in a circle, or too deep, is refused
//! before it is ever asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{BundleError, Problem};
use crate::place::Place;
use crate::syntax::{File, Rule, known};

/// The rules of a bundle, and which of them need which.
pub(crate) struct Graph {
    nodes: Vec<Node>,
    by_path: BTreeMap<Vec<String>, usize>,
}

/// All definitions of one rule together.
struct Node {
    path: Vec<String>,
    place: Place,
    is_test: bool,
    depth: usize,
    needs: BTreeSet<usize>,
}

impl Graph {
    /// The rules of `files`, not yet connected.
    pub(crate) fn of(files: &[File]) -> Self {
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
            Some(node) => node.depth = node.depth.max(rule.depth),
            None => self.nodes.push(Node {
                path,
                place: rule.place.clone(),
                is_test: file.is_test,
                depth: rule.depth,
                needs: BTreeSet::new(),
            }),
        }
    }

    /// The rules that are at `path`, above it or below it. A policy does not see what tests define.
    pub(crate) fn find(&self, path: &[String], from_test: bool) -> Vec<usize> {
        let related = |node: &Node| node.path.iter().zip(path).all(|(one, other)| one == other);
        self.indices(|node| related(node) && (from_test || !node.is_test))
    }

    /// The rules that are at `path` or above it.
    pub(crate) fn find_rule(&self, path: &[String]) -> Vec<usize> {
        self.indices(|node| path.starts_with(&node.path) || node.path.starts_with(path))
    }

    fn indices(&self, keep: impl Fn(&Node) -> bool) -> Vec<usize> {
        self.nodes.iter().enumerate().filter(|(_, node)| keep(node)).map(|(index, _)| index).collect()
    }

    /// Notes that `rule` of `file` needs the rules `targets`.
    pub(crate) fn connect(&mut self, file: &File, rule: &Rule, targets: Vec<usize>) {
        let index = self.by_path.get(&path_of(file, rule)).copied();
        if let Some(node) = index.and_then(|index| self.nodes.get_mut(index)) {
            node.needs.extend(targets);
        }
    }

    /// Refuses rules that go in a circle, or deeper than `depth_max`.
    pub(crate) fn check_depth(&self, depth_max: usize) -> Result<(), BundleError> {
        let mut left: BTreeMap<usize, &BTreeSet<usize>> =
            self.nodes.iter().enumerate().map(|(index, node)| (index, &node.needs)).collect();
        let mut depths: BTreeMap<usize, usize> = BTreeMap::new();
        // Each round settles the rules that need only settled ones, so there are as many rounds as levels.
        while !left.is_empty() {
            let ready: Vec<usize> = left
                .iter()
                .filter(|(_, needs)| needs.iter().all(|need| depths.contains_key(need)))
                .map(|(i, _)| *i)
                .collect();
            if ready.is_empty() {
                return Err(self.circle(&left));
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
    ) -> Result<usize, BundleError> {
        let Some(node) = self.nodes.get(index) else { return Ok(0) };
        let below = node.needs.iter().filter_map(|need| depths.get(need)).max().copied().unwrap_or(0);
        match below + node.depth + 1 {
            depth if depth > depth_max => {
                Err(BundleError::at(&node.place, Problem::TooDeep { name: node.name() }))
            }
            depth => Ok(depth),
        }
    }

    /// Of the rules that are left because they need each other, the first that is needed by another.
    fn circle(&self, left: &BTreeMap<usize, &BTreeSet<usize>>) -> BundleError {
        // Whoever walks from need to need among the rest ends in a circle after at most as many steps.
        let mut at = left.keys().next().copied().unwrap_or(0);
        for _ in 0..left.len() {
            let next = left.get(&at).and_then(|needs| needs.iter().find(|need| left.contains_key(need)));
            at = next.copied().unwrap_or(at);
        }
        match self.nodes.get(at) {
            Some(node) => BundleError::at(&node.place, Problem::Recursion { name: node.name() }),
            None => BundleError::of_bundle(Problem::Recursion { name: String::new() }),
        }
    }
}

impl Node {
    fn name(&self) -> String {
        self.path.last().cloned().unwrap_or_default()
    }
}

fn path_of(file: &File, rule: &Rule) -> Vec<String> {
    file.package.iter().cloned().chain(known(&rule.name).into_iter().map(str::to_owned)).collect()
}
