//! The log of runs: an append-only Merkle tree (RFC 6962) over the heads of finished runs.
//!
//! Whoever holds a checkpoint — a size and a root — can be shown that a run is in the log, and cannot be
//! shown another log of that size. All that is kept to append is the [`Frontier`]: one digest for each
//! complete subtree, at most 64.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

const LEAF: &str = "countersign/log-leaf/v1";
const NODE: &str = "countersign/log-node/v1";

/// The hash of an entry.
pub fn leaf(entry: &[u8]) -> Digest {
    Digest::of_parts(LEAF, &[entry])
}

fn node(left: &Digest, right: &Digest) -> Digest {
    Digest::of_parts(NODE, &[left.as_bytes(), right.as_bytes()])
}

/// The right edge of the tree: the roots of its complete subtrees, largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frontier {
    size: u64,
    peaks: Vec<Digest>,
}

/// Where an entry stands, as of the moment it was appended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Its number, from 0.
    pub index: u64,
    /// How many entries the log has with it.
    pub size: u64,
    /// The root of the log with it.
    pub root: Digest,
    /// The siblings on the way from the entry to the root.
    pub path: Vec<Digest>,
}

impl Frontier {
    /// How many entries the log has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends the entry whose hash is `leaf`. The newest entry is the right edge of the tree, so the way
    /// to the root goes past the peaks that were there before it, smallest first.
    pub fn push(&mut self, leaf: Digest) -> Position {
        let index = self.size;
        let mut path = Vec::new();
        let mut edge = leaf;
        let mut root = leaf;
        for (height, peak) in self.peaks.clone().iter().rev().enumerate() {
            path.push(*peak);
            root = node(peak, &root);
            // The lowest peaks whose sizes carry over become part of one complete subtree.
            if index.trailing_ones() as usize > height {
                edge = node(peak, &edge);
            }
        }
        let kept = self.peaks.len().saturating_sub(index.trailing_ones() as usize);
        self.peaks.truncate(kept);
        self.peaks.push(edge);
        self.size = index.saturating_add(1);
        Position { index, size: self.size, root, path }
    }
}

impl Position {
    /// Whether `leaf` stands at this position of a log with this root. The entry is the last of the log it
    /// was appended to, so every sibling stands to its left, and there is one for each complete subtree
    /// before it.
    pub fn holds(&self, leaf: &Digest) -> bool {
        let siblings = self.index.count_ones() as usize;
        let last = self.index.checked_add(1) == Some(self.size);
        let root = self.path.iter().fold(*leaf, |right, left| node(left, &right));
        last && self.path.len() == siblings && root == self.root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as the RFC defines it.
    fn root_of(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::ZERO,
            [leaf] => *leaf,
            _ => {
                let half = leaves.len().next_power_of_two() / 2;
                node(&root_of(&leaves[..half]), &root_of(&leaves[half..]))
            }
        }
    }

    #[test]
    fn every_entry_is_found_where_it_was_appended_and_nowhere_else() {
        let mut frontier = Frontier::default();
        let mut leaves = Vec::new();
        for number in 0..200_u32 {
            let entry = leaf(&number.to_be_bytes());
            leaves.push(entry);
            let position = frontier.push(entry);
            assert_eq!(position.root, root_of(&leaves), "of {} entries", number + 1);
            assert!(position.holds(&entry));
            assert!(!position.holds(&leaf(b"another")));
            let elsewhere = Position { index: position.index + 1, ..position.clone() };
            assert!(!elsewhere.holds(&entry));
        }
    }
}
