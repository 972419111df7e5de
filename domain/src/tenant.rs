//! What a tenant has settled for all its runs: who its people are, who may approve, how much a run may
//! change, and which policy counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::dispatch::Stopped;
use crate::id::{GroupName, PersonId, TenantId};
use crate::initiator::Initiator;
use crate::time::Timestamp;

/// What a tenant has settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Whose.
    pub tenant: TenantId,
    /// The policy that counts, by hash; the one that ships with the runtime, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Digest>,
    /// Who settled on that policy, and when; absent where that was not kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_settled: Option<Settled>,
    /// How much a run may do.
    #[serde(default)]
    pub caps: Caps,
    /// The people, and how they are known to the channels they come through.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub people: BTreeMap<PersonId, Person>,
    /// Who may approve what policy hands to a group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// Set while nothing is begun for this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Grows with every change.
    #[serde(default)]
    pub revision: u32,
}

/// Who settled something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// By whom.
    pub by: Initiator,
    /// When.
    pub at: Timestamp,
}

/// A person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// Their Slack user, as `TEAM:USER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<String>,
}

/// How much a run may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// At most this many effects in one run; taking back is not counted.
    pub max_writes_per_run: u32,
}

impl Default for Caps {
    /// Enough for a workflow of nothing but writes, and no more.
    fn default() -> Self {
        Self { max_writes_per_run: 64 }
    }
}

impl Tenant {
    /// A tenant that has settled nothing.
    pub fn new(tenant: TenantId) -> Self {
        Self {
            tenant,
            policy: None,
            policy_settled: None,
            caps: Caps::default(),
            people: BTreeMap::new(),
            groups: BTreeMap::new(),
            stopped: None,
            revision: 0,
        }
    }

    /// The person behind a Slack user.
    pub fn slack_person(&self, team: &str, user: &str) -> Option<&PersonId> {
        let known = |person: &Person| {
            person.slack.as_deref().and_then(|slack| slack.split_once(':')) == Some((team, user))
        };
        self.people.iter().find(|(_, person)| known(person)).map(|(id, _)| id)
    }

    /// Whether `person` belongs to one of `groups`; everybody does where none is named.
    pub fn belongs(&self, person: &PersonId, groups: &[GroupName]) -> bool {
        let member = |group| self.groups.get(group).is_some_and(|people| people.contains(person));
        groups.is_empty() || groups.iter().any(member)
    }
}
