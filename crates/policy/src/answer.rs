//! What one rule says, in the one shape in which it may say it.

use domain::failure::bounded;
use domain::{Demand, GroupName, People, Tier};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What a rule says is one sentence on a card.
const SAYS_CHARS_MAX: usize = 256;

/// Somebody must know the people who may approve; a longer list is the whole company.
const GROUPS_MAX: usize = 16;

/// The sets that a verdict is made from, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Set {
    /// What may not happen.
    Deny,
    /// What people must say yes to.
    NeedsApproval,
    /// What may happen.
    Allow,
}

impl Set {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deny, Self::NeedsApproval, Self::Allow];

    /// What it is called in Rego.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::NeedsApproval => "needs_approval",
            Self::Allow => "allow",
        }
    }

    /// The set called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// The fields of a member.
    pub(crate) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Deny | Self::Allow => &["rule", "says"],
            Self::NeedsApproval => &["rule", "says", "tier", "people", "groups"],
        }
    }

    /// The same, for a sentence.
    pub(crate) fn fields_listed(self) -> &'static str {
        match self {
            Self::Deny | Self::Allow => "`rule` and `says`",
            Self::NeedsApproval => "`rule`, `says`, `tier`, `people` and `groups`",
        }
    }

    /// A member that is right.
    pub(crate) fn example(self) -> Map<String, Value> {
        let example = json!({"rule": "r", "says": "s", "tier": "low", "people": 1, "groups": []});
        let Value::Object(mut fields) = example else { return Map::new() };
        fields.retain(|name, _| self.fields().contains(&name.as_str()));
        fields
    }
}

/// What one rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its name.
    pub(crate) rule: String,
    /// What it says, for people.
    pub(crate) says: String,
    /// Whom it demands; nobody, unless it is a member of `needs_approval`.
    pub(crate) demand: Option<Demand>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    rule: String,
    #[serde(deserialize_with = "says")]
    says: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Demanding {
    rule: String,
    #[serde(deserialize_with = "says")]
    says: String,
    tier: Tier,
    #[serde(deserialize_with = "people")]
    people: People,
    // A forgotten line must not loosen anything: whoever means everybody writes an empty list.
    #[serde(deserialize_with = "groups")]
    groups: Vec<GroupName>,
}

fn says<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.trim() {
        "" => Err(D::Error::custom("`says` is empty")),
        text => Ok(bounded(text, SAYS_CHARS_MAX)),
    }
}

fn people<'de, D: Deserializer<'de>>(deserializer: D) -> Result<People, D::Error> {
    match u64::deserialize(deserializer)? {
        1 => Ok(People::One),
        2 => Ok(People::Two),
        number => Err(D::Error::custom(format!("`people` is {number}; it is 1 or 2"))),
    }
}

fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<GroupName>, D::Error> {
    let groups = Vec::<GroupName>::deserialize(deserializer)?;
    match groups.len() {
        0..=GROUPS_MAX => Ok(groups),
        many => Err(D::Error::custom(format!("`groups` has {many} names; at most {GROUPS_MAX} are allowed"))),
    }
}

impl Answer {
    /// The answer that a member of `set` is, or what is wrong with it.
    pub(crate) fn read(set: Set, member: Value) -> Result<Self, String> {
        // serde would take a list of the right length; it does not name its fields.
        if !member.is_object() {
            return Err(format!("a member of `{}` is an object", set.name()));
        }
        let answer = match set {
            Set::Deny | Set::Allow => Self::plain(member),
            Set::NeedsApproval => Self::demanding(member),
        };
        answer.map_err(|error| error.to_string())
    }

    fn plain(member: Value) -> Result<Self, serde_json::Error> {
        let Plain { rule, says } = serde_json::from_value(member)?;
        Ok(Self { rule, says, demand: None })
    }

    fn demanding(member: Value) -> Result<Self, serde_json::Error> {
        let Demanding { rule, says, tier, people, groups } = serde_json::from_value(member)?;
        Ok(Self { rule, says, demand: Some(Demand { tier, people, groups }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: Set, change: Value) -> Result<Answer, String> {
        let mut member = set.example();
        if let Value::Object(change) = change {
            member.extend(change);
        }
        Answer::read(set, Value::Object(member))
    }

    #[test]
    fn the_example_of_each_set_is_right() {
        for set in Set::ALL {
            assert!(read(set, json!({})).is_ok(), "{set:?}");
        }
    }

    #[test]
    fn every_other_shape_is_refused() {
        for wrong in [
            json!({"tier": "extreme"}),
            json!({"tier": null}),
            json!({"people": 0}),
            json!({"people": 3}),
            json!({"people": -1}),
            json!({"people": 1.5}),
            json!({"people": "1"}),
            json!({"groups": "db-oncall"}),
            json!({"groups": ["a b"]}),
            json!({"groups": [""]}),
            json!({"groups": vec!["g"; GROUPS_MAX + 1]}),
            json!({"says": ""}),
            json!({"says": " \n"}),
            json!({"says": 1}),
            json!({"rule": null}),
            json!({"until": "tomorrow"}),
        ] {
            assert!(read(Set::NeedsApproval, wrong.clone()).is_err(), "{wrong}");
        }
        assert!(read(Set::Allow, json!({"tier": "low"})).is_err());
    }

    #[test]
    fn a_member_that_lacks_a_field_or_is_no_object_is_refused() {
        for set in Set::ALL {
            for field in set.fields() {
                let mut member = set.example();
                member.remove(*field);
                assert!(Answer::read(set, Value::Object(member)).is_err(), "{set:?} without {field}");
            }
            for member in [json!("text"), json!(true), json!(["r", "s"]), Value::Null] {
                assert!(Answer::read(set, member.clone()).is_err(), "{set:?}: {member}");
            }
        }
    }

    #[test]
    fn what_is_said_is_bounded_and_has_no_control_characters() {
        let said = read(Set::Deny, json!({"says": format!("a\u{1b}{}", "b".repeat(500))})).unwrap().says;
        assert_eq!(said.chars().count(), SAYS_CHARS_MAX);
        assert!(said.starts_with("a\u{fffd}b"));
    }
}
