//! Concurrency keys: at most one active run for each.
//!
//! A workflow may name what its runs are about: an incident, a pull request, a host. The first run holds the key until it
//! ends. A trigger that arrives meanwhile joins that run, waits for it, or is rejected, as the workflow says.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::digest::Digest;
use crate::id::{TenantId, WorkflowName};

/// The `concurrency` section of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrencyRule {
    /// The key; may contain expressions over the trigger.
    pub key: String,
    /// What happens to a trigger whose key is held by an active run.
    #[serde(default)]
    pub on_conflict: OnConflict,
    /// Which workflows share the key.
    #[serde(default, skip_serializing_if = "ConcurrencyScope::is_default")]
    pub scope: ConcurrencyScope,
}

/// What happens to a trigger whose key is held by an active run.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OnConflict {
    /// The trigger is answered with the run that holds the key. It waits instead while a run of another workflow holds
    /// it: that run does not do this workflow's work.
    #[default]
    Join,
    /// The trigger waits until the run ends.
    Queue,
    /// The trigger is rejected.
    Reject,
}

/// Which workflows share a key.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ConcurrencyScope {
    /// All workflows of the tenant: two workflows about one record do not run at once.
    #[default]
    Tenant,
    /// Only this workflow.
    Workflow,
}

impl ConcurrencyScope {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The hash of a concurrency key, unique among all tenants and scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConcurrencyKey(Digest);

impl ConcurrencyKey {
    /// The key `text` of `workflow`, in the scope that its rule names.
    pub fn derive(tenant: &TenantId, workflow: &WorkflowName, scope: ConcurrencyScope, text: &str) -> Self {
        let tag = "countersign/concurrency-key/v1";
        Self(match scope {
            ConcurrencyScope::Tenant => Digest::of_parts(tag, &[tenant.as_str(), text]),
            ConcurrencyScope::Workflow => Digest::of_parts(tag, &[tenant.as_str(), workflow.as_str(), text]),
        })
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Display for ConcurrencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, workflow: &str, scope: ConcurrencyScope, text: &str) -> ConcurrencyKey {
        ConcurrencyKey::derive(&tenant.parse().unwrap(), &workflow.parse().unwrap(), scope, text)
    }

    #[test]
    fn workflows_of_a_tenant_share_a_key_by_default() {
        let scope = ConcurrencyScope::default();
        assert_eq!(key("a", "w", scope, "INC1"), key("a", "v", scope, "INC1"));
        for other in [key("b", "w", scope, "INC1"), key("a", "w", scope, "INC2")] {
            assert_ne!(key("a", "w", scope, "INC1"), other);
        }
    }

    #[test]
    fn workflow_scope_separates_workflows() {
        let scope = ConcurrencyScope::Workflow;
        assert_eq!(key("a", "w", scope, "INC1"), key("a", "w", scope, "INC1"));
        let tenant_wide = key("a", "w", ConcurrencyScope::Tenant, "INC1");
        for other in [key("a", "v", scope, "INC1"), key("b", "w", scope, "INC1"), tenant_wide] {
            assert_ne!(key("a", "w", scope, "INC1"), other);
        }
    }
}
