//! What a tenant has settled.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Digest, GroupName, PersonId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Stopped;

/// What a tenant has settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tenant {
    /// Whose.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// The policy that counts, by hash; the one that ships with the runtime, if absent.
    #[schema(value_type = Option<String>)]
    pub policy: Option<Digest>,
    /// How much a run may do.
    pub caps: Caps,
    /// The people.
    #[schema(value_type = BTreeMap<String, Person>)]
    pub people: BTreeMap<PersonId, Person>,
    /// Who may approve what policy hands to a group.
    #[schema(value_type = BTreeMap<String, Vec<String>>)]
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// Set while nothing is begun for this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Grows with every change; absent, if nothing was ever settled.
    pub revision: Option<u32>,
}

impl From<domain::Tenant> for Tenant {
    fn from(settled: domain::Tenant) -> Self {
        Self {
            tenant: settled.tenant,
            policy: settled.policy,
            caps: Caps { max_writes_per_run: settled.caps.max_writes_per_run },
            people: settled
                .people
                .into_iter()
                .map(|(id, person)| (id, Person { slack: person.slack }))
                .collect(),
            groups: settled.groups,
            stopped: settled.stopped.map(Stopped::from),
            revision: Some(settled.revision),
        }
    }
}

/// What other systems prove themselves to a tenant with, by name. No secret stands here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretNames {
    /// One for each system that delivers.
    pub secrets: Vec<SecretName>,
}

/// The name of what a system proves itself with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretName {
    /// The system: `servicenow`, `github`, `slack`, `webhook`.
    pub source: String,
    /// How it proves itself.
    pub scheme: String,
    /// The name by which the server finds the secret.
    pub id: String,
    /// The one before, with its end.
    pub previous: Option<PreviousSecret>,
}

/// A secret that is on its way out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviousSecret {
    /// Its name.
    pub id: String,
    /// Until when it counts.
    pub until: String,
}

/// How much a run may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// At most this many effects in one run; taking back is not counted.
    pub max_writes_per_run: u32,
}

/// A person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// Their Slack user, as `TEAM:USER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<String>,
}

/// What a tenant settles anew: all of it. The policy is not among it and stays what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutTenant {
    /// How much a run may do.
    pub caps: Caps,
    /// The people.
    #[schema(value_type = BTreeMap<String, Person>)]
    pub people: BTreeMap<PersonId, Person>,
    /// Who may approve what policy hands to a group.
    #[schema(value_type = BTreeMap<String, Vec<String>>)]
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// The revision that was looked at: refused, if somebody has settled something else since. Absent or null, if
    /// nothing was ever settled.
    #[serde(default)]
    pub revision: Option<u32>,
}
