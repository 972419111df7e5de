//! Verdicts: what policy decides about an action, and why.
//!
//! There are three rulings. No value means *approve after a timeout* or *allow if policy cannot be evaluated*: without
//! a verdict the action is denied.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::approval::Assurance;
use crate::digest::Digest;
use crate::failure::bounded;
use crate::id::GroupName;
use crate::json;

/// The maximum number of reasons, so that an approval card stays readable.
pub const REASONS_MAX: usize = 16;

/// A reason is one sentence.
const REASON_CHARS_MAX: usize = 256;

/// The risk tier of an approval.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Tier {
    /// A mistake is easily corrected.
    Low,
    /// A mistake is noticed.
    #[default]
    Medium,
    /// A mistake is an outage.
    High,
}

/// How many users must approve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproverCount {
    /// One user.
    #[default]
    One,
    /// Two different users.
    Two,
}

impl ApproverCount {
    /// The number.
    pub fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// How an approver must be authenticated.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RequiredAssurance {
    /// By any credential.
    #[default]
    Any,
    /// By the identity provider. An API key does not count: an admin could have created it for another user.
    IdentityProvider,
}

impl RequiredAssurance {
    /// Whether a vote with this assurance counts.
    pub fn accepts(self, assurance: Assurance) -> bool {
        match self {
            Self::Any => true,
            Self::IdentityProvider => assurance == Assurance::IdentityProvider,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// Who must approve an action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequirement {
    /// The risk tier.
    pub tier: Tier,
    /// The number of users.
    pub people: ApproverCount,
    /// Each approver must be in one of these groups; in any, if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupName>,
    /// How each approver must be authenticated.
    #[serde(default, skip_serializing_if = "RequiredAssurance::is_any")]
    pub assurance: RequiredAssurance,
}

impl ApprovalRequirement {
    /// Whether approvals that meet this requirement also meet `other`.
    pub fn covers(&self, other: &Self) -> bool {
        self.tier >= other.tier && self.covers_approvers(other)
    }

    /// Whether the approvers that this requirement demands are also those that `other` demands, for any tier.
    pub fn covers_approvers(&self, other: &Self) -> bool {
        let groups = other.groups.is_empty()
            || (!self.groups.is_empty() && self.groups.iter().all(|group| other.groups.contains(group)));
        self.people >= other.people && self.assurance >= other.assurance && groups
    }

    /// A requirement that satisfies both: an approver must be in a group that both name. `None` if both name groups and
    /// have none in common. Then no approver satisfies both rules, and members of one group must not decide for the other.
    pub fn and(mut self, other: Self) -> Option<Self> {
        self.tier = self.tier.max(other.tier);
        self.people = self.people.max(other.people);
        self.assurance = self.assurance.max(other.assurance);
        if self.groups.is_empty() {
            self.groups = other.groups;
        } else if !other.groups.is_empty() {
            self.groups.retain(|group| other.groups.contains(group));
            if self.groups.is_empty() {
                return None;
            }
        }
        self.groups.sort();
        self.groups.dedup();
        Some(self)
    }
}

/// The ruling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The action is denied.
    Deny,
    /// The action is allowed after these approvals.
    NeedsApproval(ApprovalRequirement),
    /// The action is allowed.
    Allow,
}

/// A rule that led to the ruling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The name of the rule: `prod-write`, `caps/max_writes_per_run`.
    pub rule: String,
    /// The explanation shown to approvers.
    pub message: String,
    /// The file of the rule; absent for rules of the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of the rule, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Reason {
    /// A rule of the runtime.
    pub fn runtime(rule: &str, message: impl AsRef<str>) -> Self {
        Self {
            rule: rule.to_owned(),
            message: bounded(message.as_ref(), REASON_CHARS_MAX),
            file: None,
            line: None,
        }
    }
}

/// The decision of policy about one action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The ruling.
    pub ruling: Ruling,
    /// The rules that led to the ruling, at most [`REASONS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// The hash of the policy.
    pub policy: Digest,
}

impl Verdict {
    /// The digest of the verdict.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/verdict/v1", self)
    }

    /// The verdict as the event of a read contains it: without reasons if the read is allowed. Every read has such an
    /// event, and the policy with this hash contains the rules.
    #[must_use]
    pub fn abridged(mut self) -> Self {
        if self.ruling == Ruling::Allow {
            self.reasons.clear();
        }
        self
    }

    /// The verdict with an additional rule, which can only make it stricter.
    #[must_use]
    pub fn tightened(mut self, to: Ruling, reason: Reason) -> Self {
        self.ruling = match (self.ruling, to) {
            (Ruling::Deny, _) | (_, Ruling::Deny) => Ruling::Deny,
            (Ruling::NeedsApproval(one), Ruling::NeedsApproval(other)) => {
                one.and(other).map_or(Ruling::Deny, Ruling::NeedsApproval)
            }
            (Ruling::NeedsApproval(requirement), Ruling::Allow)
            | (Ruling::Allow, Ruling::NeedsApproval(requirement)) => Ruling::NeedsApproval(requirement),
            (Ruling::Allow, Ruling::Allow) => Ruling::Allow,
        };
        self.reasons.push(reason);
        self.reasons.truncate(REASONS_MAX);
        self
    }
}
