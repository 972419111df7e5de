//! The settings of a tenant: its users and groups, the limits of a run, and the policy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::access::{Role, Roles, is_oidc_credential, oidc_credential};
use crate::connection::Connection;
use crate::digest::Digest;
use crate::dispatch::DispatchStop;
use crate::failure::bounded;
use crate::id::{ConnectionName, GroupName, PersonId, TenantId, WorkspaceId};
use crate::initiator::Initiator;
use crate::time::Timestamp;

/// The maximum length of an invalid account quoted in an error.
const ACCOUNT_CHARS_SHOWN: usize = 64;

/// The settings of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// The tenant.
    pub tenant: TenantId,
    /// The hash of the tenant's policy; the default policy, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Digest>,
    /// Who set the policy, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_changed: Option<ChangeStamp>,
    /// The limits of a run.
    #[serde(default)]
    pub caps: Caps,
    /// The users.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub people: BTreeMap<PersonId, Person>,
    /// The groups that policies can require approvals from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<GroupName, BTreeSet<PersonId>>,
    /// The connections that its admins have set. Operators configure others in the file of the process.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connections: BTreeMap<ConnectionName, Connection>,
    /// Regular expressions. What matches is replaced in what external systems return.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
    /// Set while dispatch is stopped for this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<DispatchStop>,
    /// Incremented by every change.
    #[serde(default)]
    pub revision: u32,
}

/// Who made a change, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeStamp {
    /// Who.
    pub by: Initiator,
    /// When.
    pub at: Timestamp,
}

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// The Slack user, as `TEAM:USER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack: Option<String>,
    /// The subject of the user's tokens, as `ISSUER#SUB`. Only tokens with this subject act under the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<String>,
    /// What the user may do in Slack, where requests carry no role. Without a role, nothing.
    #[serde(default, skip_serializing_if = "Roles::is_empty")]
    pub slack_roles: Roles,
}

impl Person {
    /// The credential of the user's tokens, if the directory names their subject.
    fn token_credential(&self) -> Option<String> {
        let (issuer, subject) = self.oidc.as_deref()?.split_once('#')?;
        Some(oidc_credential(issuer, subject))
    }
}

/// Why users and groups are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPeople {
    /// A group contains an unknown user.
    #[error(
        "group `{group}` contains `{person}`, who is not in `people`; add the user to `people`, or correct the name"
    )]
    UnknownMember {
        /// The group.
        group: GroupName,
        /// The unknown user.
        person: PersonId,
    },
    /// The text is not a Slack user.
    #[error("`slack` of `{person}` is {slack:?}; write TEAM:USER, such as T0ACME:U0ADA")]
    SlackUser {
        /// The user.
        person: PersonId,
        /// The text.
        slack: String,
    },
    /// The text is not a token subject.
    #[error("`oidc` of `{person}` is {oidc:?}; write ISSUER#SUB, such as https://id.example.com#4711")]
    TokenSubject {
        /// The user.
        person: PersonId,
        /// The text.
        oidc: String,
    },
    /// Two users have the same token subject, so that one person could approve their own runs under the other name.
    #[error("`{first}` and `{second}` have the same token subject; each user needs their own")]
    DuplicateTokenSubject {
        /// The first user.
        first: PersonId,
        /// The second user.
        second: PersonId,
    },
    /// The names of two users look alike, so that one person could act as two users unnoticed.
    #[error(
        "the names `{first}` and `{second}` look alike: `l`, `1` and `i`, `o` and `0`, `rn` and `m`, and the separators \
         count as equal; rename one of the users, or remove one if they are one person"
    )]
    Confusable {
        /// The first user.
        first: PersonId,
        /// The second user.
        second: PersonId,
    },
    /// Two users have the same Slack user, so that one could approve the runs of the other.
    #[error("`{first}` and `{second}` have the same Slack user {slack}; each user needs their own")]
    DuplicateSlackUser {
        /// The first user.
        first: PersonId,
        /// The second user.
        second: PersonId,
        /// The Slack user.
        slack: String,
    },
}

/// Checks users and groups.
pub fn check_people(
    people: &BTreeMap<PersonId, Person>,
    groups: &BTreeMap<GroupName, BTreeSet<PersonId>>,
) -> Result<(), InvalidPeople> {
    for (group, members) in groups {
        if let Some(unknown) = members.iter().find(|member| !people.contains_key(*member)) {
            return Err(InvalidPeople::UnknownMember { group: group.clone(), person: unknown.clone() });
        }
    }
    check_names(people)?;
    check_slack_users(people)?;
    check_token_subjects(people)
}

fn check_names(people: &BTreeMap<PersonId, Person>) -> Result<(), InvalidPeople> {
    let mut known: BTreeMap<String, &PersonId> = BTreeMap::new();
    for id in people.keys() {
        if let Some(first) = known.insert(skeleton(id), id) {
            return Err(InvalidPeople::Confusable { first: first.clone(), second: id.clone() });
        }
    }
    Ok(())
}

/// The name with one character for all that look alike. A name has only letters of ASCII, digits and separators, and no
/// capitals.
fn skeleton(name: &PersonId) -> String {
    let alike = |c: char| match c {
        '1' | 'i' => 'l',
        '0' => 'o',
        '_' | '.' => '-',
        c => c,
    };
    name.as_str().chars().map(alike).collect::<String>().replace("rn", "m")
}

fn check_token_subjects(people: &BTreeMap<PersonId, Person>) -> Result<(), InvalidPeople> {
    let mut known: BTreeMap<&str, &PersonId> = BTreeMap::new();
    for (id, person) in people {
        let Some(oidc) = person.oidc.as_deref() else { continue };
        if !oidc.split_once('#').is_some_and(|(issuer, subject)| !issuer.is_empty() && !subject.is_empty()) {
            let oidc = bounded(oidc, ACCOUNT_CHARS_SHOWN);
            return Err(InvalidPeople::TokenSubject { person: id.clone(), oidc });
        }
        if let Some(first) = known.insert(oidc, id) {
            let (first, second) = (first.clone(), id.clone());
            return Err(InvalidPeople::DuplicateTokenSubject { first, second });
        }
    }
    Ok(())
}

fn check_slack_users(people: &BTreeMap<PersonId, Person>) -> Result<(), InvalidPeople> {
    let mut known: BTreeMap<&str, &PersonId> = BTreeMap::new();
    for (id, person) in people {
        let Some(slack) = person.slack.as_deref() else { continue };
        if !is_slack_user(slack) {
            let slack = bounded(slack, ACCOUNT_CHARS_SHOWN);
            return Err(InvalidPeople::SlackUser { person: id.clone(), slack });
        }
        if let Some(first) = known.insert(slack, id) {
            let slack = bounded(slack, ACCOUNT_CHARS_SHOWN);
            return Err(InvalidPeople::DuplicateSlackUser {
                first: first.clone(),
                second: id.clone(),
                slack,
            });
        }
    }
    Ok(())
}

/// Deserializes users by name. Two spellings of one name are refused: one entry would replace the other silently.
pub fn unique_people<'de, D, P>(deserializer: D) -> Result<BTreeMap<PersonId, P>, D::Error>
where
    D: Deserializer<'de>,
    P: Deserialize<'de>,
{
    deserializer.deserialize_map(UniquePeople(PhantomData))
}

struct UniquePeople<P>(PhantomData<P>);

impl<'de, P: Deserialize<'de>> Visitor<'de> for UniquePeople<P> {
    type Value = BTreeMap<PersonId, P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of users")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut people = BTreeMap::new();
        while let Some((name, person)) = map.next_entry::<String, P>()? {
            let id = PersonId::new(&name).map_err(A::Error::custom)?;
            if people.insert(id.clone(), person).is_some() {
                return Err(A::Error::custom(format!(
                    "`people` lists `{id}` twice: `{name}` is the same user in another spelling; names ignore case"
                )));
            }
        }
        Ok(people)
    }
}

/// `TEAM:USER`, each of letters and digits, as in Slack ids.
fn is_slack_user(text: &str) -> bool {
    let is_id = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric());
    text.split_once(':').is_some_and(|(team, user)| is_id(team) && is_id(user))
}

/// The limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// The maximum number of effects in one run; undos do not count.
    pub max_writes_per_run: u32,
    /// The maximum cost of the model calls of one run, in millionths of a US dollar, failed attempts included; not
    /// limited, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_per_run_microusd: Option<u64>,
    /// Stricter limits for the runs of one workspace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workspaces: BTreeMap<WorkspaceId, WorkspaceCaps>,
}

/// The limits of a run in one workspace. A limit that is absent, or laxer than that of the tenant, has no effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkspaceCaps {
    /// The maximum number of effects in one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_writes_per_run: Option<u32>,
    /// The maximum cost of the model calls of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_per_run_microusd: Option<u64>,
}

impl Default for Caps {
    /// Enough for a workflow whose every step has an effect.
    fn default() -> Self {
        Self { max_writes_per_run: 64, max_cost_per_run_microusd: None, workspaces: BTreeMap::new() }
    }
}

impl Caps {
    /// The maximum number of effects of a run in `workspace`.
    pub fn max_writes_in(&self, workspace: &WorkspaceId) -> u32 {
        let own = self.workspaces.get(workspace).and_then(|own| own.max_writes_per_run);
        own.map_or(self.max_writes_per_run, |own| own.min(self.max_writes_per_run))
    }

    /// The maximum cost of the model calls of a run in `workspace`, if it is limited.
    pub fn max_cost_in(&self, workspace: &WorkspaceId) -> Option<u64> {
        let own = self.workspaces.get(workspace).and_then(|own| own.max_cost_per_run_microusd);
        [own, self.max_cost_per_run_microusd].into_iter().flatten().min()
    }
}

impl Tenant {
    /// A tenant with default settings.
    pub fn new(tenant: TenantId) -> Self {
        Self {
            tenant,
            policy: None,
            policy_changed: None,
            caps: Caps::default(),
            people: BTreeMap::new(),
            groups: BTreeMap::new(),
            connections: BTreeMap::new(),
            redact: Vec::new(),
            stopped: None,
            revision: 0,
        }
    }

    /// The user with this Slack user.
    pub fn slack_person(&self, team: &str, user: &str) -> Option<&PersonId> {
        let matches = |person: &Person| {
            person.slack.as_deref().and_then(|slack| slack.split_once(':')) == Some((team, user))
        };
        self.people.iter().find(|(_, person)| matches(person)).map(|(id, _)| id)
    }

    /// The user whose tokens have this credential, if the directory names their subject.
    pub fn token_person(&self, credential: &str) -> Option<&PersonId> {
        let matches = |person: &Person| person.token_credential().as_deref() == Some(credential);
        self.people.iter().find(|(_, person)| matches(person)).map(|(id, _)| id)
    }

    /// Whether the directory has an entry for `person` with this credential: for a token one with its subject, for an
    /// API key one with the name. Always true if the tenant lists no users.
    pub fn lists(&self, person: &PersonId, credential: &str) -> bool {
        if is_oidc_credential(credential) && !self.people.is_empty() {
            return self.token_person(credential) == Some(person);
        }
        self.knows(person)
    }

    /// Whether `person` may do in Slack what needs `role`.
    pub fn allows_in_slack(&self, person: &PersonId, role: Role) -> bool {
        self.people.get(person).is_some_and(|person| person.slack_roles.allow(role))
    }

    /// Whether `person` is a user of the tenant. Always true if the tenant lists no users.
    pub fn knows(&self, person: &PersonId) -> bool {
        self.people.is_empty() || self.people.contains_key(person)
    }

    /// Whether `person` is in one of `groups`. Always true if `groups` is empty.
    pub fn belongs(&self, person: &PersonId, groups: &[GroupName]) -> bool {
        let member = |group| self.groups.get(group).is_some_and(|people| people.contains(person));
        groups.is_empty() || groups.iter().any(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn people(named: &[(&str, Option<&str>)]) -> BTreeMap<PersonId, Person> {
        let person = |slack: Option<&str>| Person { slack: slack.map(str::to_owned), ..Person::default() };
        named.iter().map(|&(id, slack)| (id.parse().unwrap(), person(slack))).collect()
    }

    fn check_error(people: &BTreeMap<PersonId, Person>, group: &[&str]) -> Option<String> {
        let members: BTreeSet<PersonId> = group.iter().map(|member| member.parse().unwrap()).collect();
        let groups = BTreeMap::from([("db".parse().unwrap(), members)]);
        check_people(people, &groups).err().map(|error| error.to_string())
    }

    #[test]
    fn slack_user_has_team_and_user() {
        assert!(is_slack_user("T0ACME:U0ADA"));
        for bad in ["", "U0ADA", ":U0ADA", "T0ACME:", "T0:U0:X", "T0ACME: U0ADA", "@ada"] {
            assert!(!is_slack_user(bad), "{bad:?}");
        }
    }

    #[test]
    fn duplicate_and_unknown_users_are_rejected() {
        let two = people(&[("ada", Some("T1:U1")), ("bob", None), ("zed", Some("T2:U1"))]);
        assert_eq!(check_error(&two, &["ada", "bob", "zed"]), None);
        let one = people(&[("ada", Some("T1:U1")), ("zed", Some("T1:U1"))]);
        let message = "`ada` and `zed` have the same Slack user T1:U1; each user needs their own";
        assert_eq!(check_error(&one, &[]).as_deref(), Some(message));
        let message = "group `db` contains `eve`, who is not in `people`; add the user to `people`, or correct the name";
        assert_eq!(check_error(&two, &["ada", "eve"]).as_deref(), Some(message));
    }

    #[test]
    fn token_subjects_are_checked_and_unique() {
        let with_subjects = |subjects: [&str; 2]| -> BTreeMap<PersonId, Person> {
            let person = |oidc: &str| Person { oidc: Some(oidc.to_owned()), ..Person::default() };
            let names = ["ada", "zed"].map(|name| name.parse::<PersonId>().unwrap());
            names.into_iter().zip(subjects.map(person)).collect()
        };
        assert_eq!(check_error(&with_subjects(["https://id#1", "https://id#2"]), &[]), None);
        let same = check_error(&with_subjects(["https://id#1", "https://id#1"]), &[]).unwrap();
        assert_eq!(same, "`ada` and `zed` have the same token subject; each user needs their own");
        for bad in ["4711", "#4711", "https://id#"] {
            let message = check_error(&with_subjects([bad, "https://id#2"]), &[]).unwrap();
            assert!(message.starts_with("`oidc` of `ada` is"), "{message}");
        }
    }

    #[test]
    fn two_spellings_of_one_name_are_refused() {
        #[derive(Debug, Deserialize)]
        struct File {
            #[serde(deserialize_with = "unique_people")]
            people: BTreeMap<PersonId, Person>,
        }
        let read = |text: &str| serde_json::from_str::<File>(text);
        assert_eq!(read(r#"{"people": {"Ada": {}, "bob": {}}}"#).unwrap().people.len(), 2);
        let error = read(r#"{"people": {"ada": {}, "Ada": {}}}"#).unwrap_err().to_string();
        assert!(error.contains("`people` lists `ada` twice: `Ada` is the same user"), "{error}");
    }

    #[test]
    fn names_that_look_alike_are_refused() {
        for pair in [
            ["paul", "pau1"],
            ["ali", "all"],
            ["bob", "b0b"],
            ["ada-b", "ada_b"],
            ["ada.b", "ada_b"],
            ["warner", "wamer"],
            ["Paul", "PAU1"],
        ] {
            let message = check_error(&people(&pair.map(|name| (name, None))), &[]).unwrap_or_default();
            let names = pair.map(|name| format!("`{}`", name.to_lowercase()));
            assert!(names.iter().all(|name| message.contains(name)), "{pair:?}: {message}");
            assert!(message.contains("rename one of the users"), "{message}");
        }
        let different =
            people(&[("ada", None), ("adam", None), ("ada-b", None), ("adab", None), ("ada-2", None)]);
        assert_eq!(check_error(&different, &[]), None);
    }

    #[test]
    fn long_slack_user_is_truncated_in_the_error() {
        let long = people(&[("ada", Some(&"@".repeat(100_000)))]);
        let message = check_error(&long, &[]).unwrap();
        assert!(message.starts_with("`slack` of `ada` is \"@@@") && message.len() < 200, "{message}");
    }
}
