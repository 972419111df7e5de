//! The switch: whether anything is begun at all, for one tenant or for all.
//!
//! Where dispatch is stopped no step is claimed and no question asked. What is under way finishes under its lease,
//! what comes in is accepted, and people can still answer; it all waits until dispatch is started again.

use serde::{Deserialize, Serialize};

use crate::failure::{MESSAGE_CHARS_MAX, bounded};
use crate::initiator::Initiator;
use crate::record::RunRecord;
use crate::time::Timestamp;

/// Dispatch is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// By whom.
    pub by: Initiator,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// Since when what was under way is being ended, if it is. A run that must settle or take back something before
    /// it can end goes on that far, and no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backout: Option<Timestamp>,
}

impl Stopped {
    /// Stopped at `at` by `by`, because of `reason`.
    pub fn new(by: Initiator, reason: &str, at: Timestamp) -> Self {
        Self { by, reason: bounded(reason, MESSAGE_CHARS_MAX), at, backout: None }
    }

    /// Whether something may be begun for the run all the same.
    pub fn lets(&self, run: &RunRecord) -> bool {
        self.backout.is_some() && (run.cancel.is_some() || run.is_undoing())
    }
}

/// What is settled for all tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// Set while nothing is begun for anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Grows with every change.
    #[serde(default)]
    pub revision: u32,
}
