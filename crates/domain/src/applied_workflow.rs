//! The workflows that a tenant applied.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::{PersonId, TenantId, WorkflowName};
use crate::initiator::Initiator;
use crate::participant;
use crate::plan::TriggeredBy;
use crate::time::Timestamp;

/// An applied workflow. Only its newest version starts runs. Earlier runs keep the plan they were admitted with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedWorkflow {
    /// The tenant.
    pub tenant: TenantId,
    /// The name of the workflow.
    pub workflow: WorkflowName,
    /// The version; later versions are larger.
    pub version: u32,
    /// The hash of the plan.
    pub plan: Digest,
    /// The trigger of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<TriggeredBy>,
    /// When it was applied.
    pub at: Timestamp,
    /// Who applied it.
    pub by: Initiator,
}

impl AppliedWorkflow {
    /// The user who applied it, and so may not approve the actions of its runs.
    pub fn applied_by(&self) -> Option<PersonId> {
        participant::user(&self.by)
    }

    /// Whether this version may replace `current`: it is larger, or it is the same version with the same plan.
    pub fn may_replace(&self, current: Option<&Self>) -> bool {
        current.is_none_or(|current| {
            self.version > current.version || (self.version == current.version && self.plan == current.plan)
        })
    }
}
