//! What a tenant has settled for all its runs: who its people are, who may approve, how much a run may
//! change, and which policy counts.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::dispatch::Stopped;
use crate::failure::bounded;
use crate::id::{GroupName, PersonId, TenantId};
use crate::initiator::Initiator;
use crate::time::Timestamp;

/// A Slack user is some twenty characters; more of what somebody wrote instead helps nobody.
const SLACK_CHARS_SHOWN: usize = 64;

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

/// Why people and groups cannot be settled as they stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPeople {
    /// A group names somebody who is nobody.
    #[error("group `{group}` names `{person}`, who is not among `people`; add them there, or mend the name")]
    Stranger {
        /// Which group.
        group: GroupName,
        /// Whom it names.
        person: PersonId,
    },
    /// A text that is no Slack user.
    #[error("`slack` of `{person}` is {slack:?}; write TEAM:USER, such as T0ACME:U0ADA")]
    SlackUser {
        /// Whose it is.
        person: PersonId,
        /// The text.
        slack: String,
    },
    /// Two people are one Slack user: whoever clicks there could approve what they asked for themselves.
    #[error("`{first}` and `{second}` are both the Slack user {slack}; one person must not count as two")]
    Twice {
        /// One of them.
        first: PersonId,
        /// The other one.
        second: PersonId,
        /// Which user.
        slack: String,
    },
}

/// Refuses people and groups that would let nobody approve, or the wrong one.
pub fn check_people(
    people: &BTreeMap<PersonId, Person>,
    groups: &BTreeMap<GroupName, BTreeSet<PersonId>>,
) -> Result<(), InvalidPeople> {
    for (group, members) in groups {
        if let Some(stranger) = members.iter().find(|member| !people.contains_key(*member)) {
            return Err(InvalidPeople::Stranger { group: group.clone(), person: stranger.clone() });
        }
    }
    let mut known: BTreeMap<&str, &PersonId> = BTreeMap::new();
    for (id, person) in people {
        let Some(slack) = person.slack.as_deref() else { continue };
        if !is_slack_user(slack) {
            let slack = bounded(slack, SLACK_CHARS_SHOWN);
            return Err(InvalidPeople::SlackUser { person: id.clone(), slack });
        }
        if let Some(first) = known.insert(slack, id) {
            let slack = bounded(slack, SLACK_CHARS_SHOWN);
            return Err(InvalidPeople::Twice { first: first.clone(), second: id.clone(), slack });
        }
    }
    Ok(())
}

/// `TEAM:USER`, each of letters and digits, as Slack makes its ids.
fn is_slack_user(text: &str) -> bool {
    let is_id = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    text.split_once(':').is_some_and(|(team, user)| is_id(team) && is_id(user))
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

    /// Whether `person` is somebody here; everybody is where nobody has been settled.
    pub fn knows(&self, person: &PersonId) -> bool {
        self.people.is_empty() || self.people.contains_key(person)
    }

    /// Whether `person` belongs to one of `groups`; everybody does where none is named.
    pub fn belongs(&self, person: &PersonId, groups: &[GroupName]) -> bool {
        let member = |group| self.groups.get(group).is_some_and(|people| people.contains(person));
        groups.is_empty() || groups.iter().any(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people(named: &[(&str, Option<&str>)]) -> BTreeMap<PersonId, Person> {
        let person = |slack: Option<&str>| Person { slack: slack.map(str::to_owned) };
        named.iter().map(|&(id, slack)| (id.parse().unwrap(), person(slack))).collect()
    }

    fn why(people: &BTreeMap<PersonId, Person>, group: &[&str]) -> Option<String> {
        let members: BTreeSet<PersonId> = group.iter().map(|member| member.parse().unwrap()).collect();
        let groups = BTreeMap::from([("db".parse().unwrap(), members)]);
        check_people(people, &groups).err().map(|fault| fault.to_string())
    }

    #[test]
    fn a_slack_user_is_a_team_and_a_user() {
        assert!(is_slack_user("T0ACME:U0ADA"));
        for bad in ["", "U0ADA", ":U0ADA", "T0ACME:", "T0:U0:X", "T0ACME: U0ADA", "@ada"] {
            assert!(!is_slack_user(bad), "{bad:?}");
        }
    }

    #[test]
    fn nobody_counts_as_two_and_nobody_is_asked_who_is_not_there() {
        let two = people(&[("ada", Some("T1:U1")), ("bob", None), ("zed", Some("T2:U1"))]);
        assert_eq!(why(&two, &["ada", "bob", "zed"]), None);
        let one = people(&[("ada", Some("T1:U1")), ("zed", Some("T1:U1"))]);
        let words = "`ada` and `zed` are both the Slack user T1:U1; one person must not count as two";
        assert_eq!(why(&one, &[]).as_deref(), Some(words));
        let words = "group `db` names `eve`, who is not among `people`; add them there, or mend the name";
        assert_eq!(why(&two, &["ada", "eve"]).as_deref(), Some(words));
    }

    #[test]
    fn what_is_no_slack_user_is_shown_as_far_as_it_can_be_read() {
        let long = people(&[("ada", Some(&"@".repeat(100_000)))]);
        let words = why(&long, &[]).unwrap();
        assert!(words.starts_with("`slack` of `ada` is \"@@@") && words.len() < 200, "{words}");
    }
}
