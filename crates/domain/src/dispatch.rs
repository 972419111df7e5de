//! The dispatch switch: whether steps start, for one tenant or for all tenants.
//!
//! While dispatch is stopped, no step is claimed and no approval requested. Running steps finish under their leases,
//! triggers are accepted, and users can vote. All of that waits until dispatch starts again.

use serde::{Deserialize, Serialize};

use crate::failure::{MESSAGE_CHARS_MAX, bounded};
use crate::initiator::Initiator;
use crate::record::RunRecord;
use crate::time::Timestamp;

/// A stop of dispatch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DispatchStop {
    /// Who stopped it.
    pub by: Initiator,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// When a backout started, if one did. A run that must resolve or undo an effect before it can end continues that
    /// far, and no further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backout: Option<Timestamp>,
}

impl DispatchStop {
    /// A stop with a bounded reason.
    pub fn new(by: Initiator, reason: &str, at: Timestamp) -> Self {
        Self { by, reason: bounded(reason, MESSAGE_CHARS_MAX), at, backout: None }
    }

    /// Whether the run may continue although dispatch is stopped.
    pub fn allows(&self, run: &RunRecord) -> bool {
        self.backout.is_some() && (run.cancel.is_some() || run.is_rolling_back())
    }
}

/// The format of the records that this program writes. It grows when an older program would drop a field that a newer one
/// has written.
pub const RECORD_FORMAT: u32 = 1;

/// The settings for all tenants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// Set while dispatch is stopped for all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<DispatchStop>,
    /// The newest [`RECORD_FORMAT`] of a worker that has started. A program with an older one starts no steps.
    #[serde(default)]
    pub format: u32,
    /// Incremented by every change.
    #[serde(default)]
    pub revision: u32,
}
