//! A member that a rule adds to one of the three sets.

use domain::failure::bounded;
use domain::verdict::RequiredAssurance;
use domain::{ApprovalRequirement, ApproverCount, GroupName, Tier};
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use strum::{EnumString, IntoStaticStr};

/// A message is one sentence on an approval card.
const MESSAGE_CHARS_MAX: usize = 256;

/// A longer list hardly restricts who may approve.
const GROUPS_MAX: usize = 16;

/// The sets that a verdict is made from, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RuleSet {
    Deny,
    NeedsApproval,
    Allow,
}

impl RuleSet {
    pub const ALL: [Self; 3] = [Self::Deny, Self::NeedsApproval, Self::Allow];

    /// The name in Rego.
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub(crate) fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Deny | Self::Allow => &["rule", "message"],
            Self::NeedsApproval => &["rule", "message", "tier", "people", "groups"],
        }
    }

    pub(crate) fn optional_fields(self) -> &'static [&'static str] {
        match self {
            Self::Deny | Self::Allow => &[],
            Self::NeedsApproval => &["assurance"],
        }
    }

    /// The fields of a member, for error messages.
    pub(crate) fn field_list(self) -> &'static str {
        match self {
            Self::Deny | Self::Allow => "`rule` and `message`",
            Self::NeedsApproval => {
                "`rule`, `message`, `tier`, `people` and `groups`, and optionally `assurance`"
            }
        }
    }

    /// A valid member.
    pub(crate) fn example(self) -> Map<String, Value> {
        let example = json!({"rule": "r", "message": "s", "tier": "low", "people": 1, "groups": []});
        let Value::Object(mut fields) = example else { return Map::new() };
        fields.retain(|name, _| self.fields().contains(&name.as_str()));
        fields
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) rule: String,
    pub(crate) message: String,
    /// Present for a member of `needs_approval`.
    pub(crate) requirement: Option<ApprovalRequirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainMember {
    rule: String,
    #[serde(deserialize_with = "message")]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ApprovalMember {
    rule: String,
    #[serde(deserialize_with = "message")]
    message: String,
    tier: Tier,
    #[serde(deserialize_with = "people")]
    people: ApproverCount,
    // Required, so that a missing line does not widen the set of approvers. An empty list means every approver.
    #[serde(deserialize_with = "groups")]
    groups: Vec<GroupName>,
    // Optional: a rule without it accepts every credential.
    #[serde(default)]
    assurance: RequiredAssurance,
}

fn message<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.trim() {
        "" => Err(D::Error::custom("`message` is empty")),
        text => Ok(bounded(text, MESSAGE_CHARS_MAX)),
    }
}

fn people<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ApproverCount, D::Error> {
    match u64::deserialize(deserializer)? {
        1 => Ok(ApproverCount::One),
        2 => Ok(ApproverCount::Two),
        number => Err(D::Error::custom(format!("`people` is {number}; it must be 1 or 2"))),
    }
}

fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<GroupName>, D::Error> {
    let groups = Vec::<GroupName>::deserialize(deserializer)?;
    match groups.len() {
        0..=GROUPS_MAX => Ok(groups),
        many => Err(D::Error::custom(format!("`groups` has {many} names; at most {GROUPS_MAX} are allowed"))),
    }
}

impl Member {
    pub(crate) fn parse(set: RuleSet, member: Value) -> Result<Self, String> {
        // serde also accepts a list of the right length, without field names.
        if !member.is_object() {
            return Err(format!("a member of `{}` must be an object", set.name()));
        }
        let member = match set {
            RuleSet::Deny | RuleSet::Allow => Self::parse_plain(member),
            RuleSet::NeedsApproval => Self::parse_approval(member),
        };
        member.map_err(|error| error.to_string())
    }

    fn parse_plain(member: Value) -> Result<Self, serde_json::Error> {
        let PlainMember { rule, message } = serde_json::from_value(member)?;
        Ok(Self { rule, message, requirement: None })
    }

    fn parse_approval(member: Value) -> Result<Self, serde_json::Error> {
        let ApprovalMember { rule, message, tier, people, groups, assurance } =
            serde_json::from_value(member)?;
        let requirement = ApprovalRequirement { tier, people, groups, assurance };
        Ok(Self { rule, message, requirement: Some(requirement) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(set: RuleSet, change: Value) -> Result<Member, String> {
        let mut member = set.example();
        if let Value::Object(change) = change {
            member.extend(change);
        }
        Member::parse(set, Value::Object(member))
    }

    #[test]
    fn example_of_each_set_is_valid() {
        for set in RuleSet::ALL {
            assert!(parse(set, json!({})).is_ok(), "{set:?}");
        }
    }

    #[test]
    fn assurance_is_optional() {
        for (change, assurance) in [
            (json!({}), RequiredAssurance::Any),
            (json!({"assurance": "any"}), RequiredAssurance::Any),
            (json!({"assurance": "identity_provider"}), RequiredAssurance::IdentityProvider),
        ] {
            let requirement = parse(RuleSet::NeedsApproval, change).unwrap().requirement.unwrap();
            assert_eq!(requirement.assurance, assurance);
        }
    }

    #[test]
    fn invalid_values_are_refused() {
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
            json!({"message": ""}),
            json!({"message": " \n"}),
            json!({"message": 1}),
            json!({"rule": null}),
            json!({"until": "tomorrow"}),
            json!({"assurance": "api_key"}),
            json!({"assurance": null}),
        ] {
            assert!(parse(RuleSet::NeedsApproval, wrong.clone()).is_err(), "{wrong}");
        }
        assert!(parse(RuleSet::Allow, json!({"tier": "low"})).is_err());
    }

    #[test]
    fn missing_fields_and_non_objects_are_refused() {
        for set in RuleSet::ALL {
            for field in set.fields() {
                let mut member = set.example();
                member.remove(*field);
                assert!(Member::parse(set, Value::Object(member)).is_err(), "{set:?} without {field}");
            }
            for member in [json!("text"), json!(true), json!(["r", "s"]), Value::Null] {
                assert!(Member::parse(set, member.clone()).is_err(), "{set:?}: {member}");
            }
        }
    }

    #[test]
    fn message_is_bounded_and_printable() {
        let message =
            parse(RuleSet::Deny, json!({"message": format!("a\u{1b}{}", "b".repeat(500))})).unwrap().message;
        assert_eq!(message.chars().count(), MESSAGE_CHARS_MAX);
        assert!(message.starts_with("a\u{fffd}b"));
    }
}
