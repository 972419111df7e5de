//! The workflows that a tenant has put to use.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{TenantId, WorkflowName};
use crate::initiator::Initiator;
use crate::plan::TriggeredBy;
use crate::time::Timestamp;

/// A workflow that was put to use. Only its newest version starts runs; those that began under an older one
/// keep the plan they were admitted with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// Whose.
    pub tenant: TenantId,
    /// Its name.
    pub workflow: WorkflowName,
    /// Its version; a later one is larger.
    pub version: u32,
    /// Its plan, by hash.
    pub plan: Digest,
    /// What starts runs of it by itself, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<TriggeredBy>,
    /// When it was put to use.
    pub at: Timestamp,
    /// By whom.
    pub by: Initiator,
}

impl Applied {
    /// Whether this may take the place of `stands`: a larger version, or the same one again.
    pub fn follows(&self, stands: Option<&Self>) -> bool {
        stands.is_none_or(|stands| {
            self.version > stands.version || (self.version == stands.version && self.plan == stands.plan)
        })
    }
}
