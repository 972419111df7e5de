//! Tenant settings.

use std::collections::{BTreeMap, BTreeSet};

use domain::tenant::WorkspaceCaps;
use domain::{Digest, GroupName, PersonId, TenantId, WorkspaceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{RoleName, Stopped};

/// The settings of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// The hash of the policy in force; null for the default policy.
    #[schema(value_type = Option<String>)]
    pub policy: Option<Digest>,
    /// The limits of a run.
    pub caps: Caps,
    /// The users of the tenant.
    #[schema(value_type = BTreeMap<String, Person>)]
    pub people: BTreeMap<PersonId, Person>,
    /// The groups that the policy can require approval from.
    #[schema(value_type = BTreeMap<String, Vec<String>>)]
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// Regular expressions. What matches is replaced by `[redacted]` in what external systems return.
    #[serde(default)]
    pub redact: Vec<String>,
    /// Set while dispatch is stopped for this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Increases with every change; null if the tenant has no settings yet.
    pub revision: Option<u32>,
}

impl From<domain::Tenant> for Tenant {
    fn from(tenant: domain::Tenant) -> Self {
        Self {
            tenant: tenant.tenant,
            policy: tenant.policy,
            caps: tenant.caps.into(),
            redact: tenant.redact,
            people: tenant.people.into_iter().map(|(id, person)| (id, person.into())).collect(),
            groups: tenant.groups,
            stopped: tenant.stopped.map(Stopped::from),
            revision: Some(tenant.revision),
        }
    }
}

/// The names of the secrets of external systems. The secrets themselves are never returned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretNames {
    pub secrets: Vec<SecretName>,
}

/// The name of the secret of an external system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretName {
    /// The external system: `servicenow`, `github`, `slack`, `webhook`.
    pub source: String,
    /// The authentication scheme.
    pub scheme: String,
    /// The name of the current secret.
    pub id: String,
    /// The previous secret, during a rotation.
    pub previous: Option<PreviousSecret>,
}

/// The previous secret during a rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviousSecret {
    pub id: String,
    /// The end of its validity.
    pub until: String,
}

/// The limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// The maximum number of effects of one run; rollbacks do not count.
    pub max_writes_per_run: u32,
    /// The maximum cost of the model calls of one run, in millionths of a US dollar; absent or null for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_run_microusd: Option<u64>,
    /// Stricter limits for the runs of one workspace: `max_writes_per_run` and `max_cost_per_run_microusd`, both optional.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Option<Object>)]
    pub workspaces: BTreeMap<WorkspaceId, WorkspaceCaps>,
}

impl From<domain::tenant::Caps> for Caps {
    fn from(caps: domain::tenant::Caps) -> Self {
        let domain::tenant::Caps { max_writes_per_run, max_cost_per_run_microusd, workspaces } = caps;
        Self { max_writes_per_run, max_cost_per_run_microusd, workspaces }
    }
}

impl From<Caps> for domain::tenant::Caps {
    fn from(caps: Caps) -> Self {
        let Caps { max_writes_per_run, max_cost_per_run_microusd, workspaces } = caps;
        Self { max_writes_per_run, max_cost_per_run_microusd, workspaces }
    }
}

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The Slack user, as `TEAM:USER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<String>,
    /// The subject of the user's tokens, as `ISSUER#SUB`. Only tokens with this subject act under the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<String>,
    /// What the user may do in Slack: `viewer`, `operator`, `approver`, `admin`. Without a role, nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slack_roles: Vec<RoleName>,
}

impl From<domain::tenant::Person> for Person {
    fn from(person: domain::tenant::Person) -> Self {
        let slack_roles = person.slack_roles.iter().map(RoleName::from).collect();
        Self { slack: person.slack, oidc: person.oidc, slack_roles }
    }
}

impl From<Person> for domain::tenant::Person {
    fn from(person: Person) -> Self {
        let slack_roles = person.slack_roles.into_iter().map(domain::Role::from).collect();
        Self { slack: person.slack, oidc: person.oidc, slack_roles }
    }
}

/// The new tenant settings. They replace all settings except the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutTenant {
    /// The limits of a run.
    pub caps: Caps,
    /// The users of the tenant. Two spellings of one name are refused.
    #[schema(value_type = BTreeMap<String, Person>)]
    #[serde(deserialize_with = "domain::tenant::unique_people")]
    pub people: BTreeMap<PersonId, Person>,
    /// The groups that the policy can require approval from.
    #[schema(value_type = BTreeMap<String, Vec<String>>)]
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// Regular expressions. What matches is replaced by `[redacted]` in what external systems return.
    #[serde(default)]
    pub redact: Vec<String>,
    /// The revision that the caller read. The request is refused if the settings changed since. Absent or null if the
    /// tenant has no settings yet.
    #[serde(default)]
    pub revision: Option<u32>,
}
