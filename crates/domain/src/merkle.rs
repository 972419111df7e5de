//! The transparency log: an append-only Merkle tree (RFC 6962) over the chain heads of finished runs.
//!
//! For a checkpoint (a size and a root), inclusion of a run can be proven, and no other log of the same size fits.
//! Appending needs only the [`Frontier`]: one digest for each complete subtree, at most 64.

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

/// The roots of the tree's complete subtrees, largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frontier {
    size: u64,
    peaks: Vec<Digest>,
}

/// The inclusion proof of an entry at the time it was appended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The index, from 0.
    pub index: u64,
    /// The size of the log, including this entry.
    pub size: u64,
    /// The root of the log, including this entry.
    pub root: Digest,
    /// The siblings on the path from the entry to the root.
    pub path: Vec<Digest>,
}

impl Frontier {
    /// The number of entries.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root of the log. `None` if it is empty.
    pub fn root(&self) -> Option<Digest> {
        self.peaks.iter().rev().copied().reduce(|right, left| node(&left, &right))
    }

    /// Appends the entry whose hash is `leaf`. The newest entry is the rightmost leaf, so its path to the root consists
    /// of the earlier peaks, smallest first.
    pub fn push(&mut self, leaf: Digest) -> Position {
        let index = self.size;
        let mut path = Vec::new();
        let mut edge = leaf;
        let mut root = leaf;
        for (height, peak) in self.peaks.clone().iter().rev().enumerate() {
            path.push(*peak);
            root = node(peak, &root);
            // The lowest peaks merge into one complete subtree.
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
    /// Whether `leaf` is at this position of a log with this root. The entry is the last one of its log, so every
    /// sibling is on its left, and there is one for each complete subtree before it.
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
    fn entry_is_proven_only_at_its_own_position() {
        let mut frontier = Frontier::default();
        let mut leaves = Vec::new();
        for number in 0..200_u32 {
            let entry = leaf(&number.to_be_bytes());
            leaves.push(entry);
            let position = frontier.push(entry);
            assert_eq!(position.root, root_of(&leaves), "of {} entries", number + 1);
            assert_eq!(frontier.root(), Some(position.root));
            assert!(position.holds(&entry));
            assert!(!position.holds(&leaf(b"another")));
            let elsewhere = Position { index: position.index + 1, ..position.clone() };
            assert!(!elsewhere.holds(&entry));
        }
    }
}
