//! What policy says about an action, and why.
//!
//! There are three answers, and no value of these types means *approve when the time is up* or *allow when
//! the policy could not be asked*: whoever cannot get a verdict has a deny.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::failure::bounded;
use crate::id::GroupName;
use crate::json;

/// A person reads the reasons on a card; more than this many are not read.
pub const REASONS_MAX: usize = 16;

/// A reason is one sentence.
const REASON_CHARS_MAX: usize = 256;

/// How much an approval weighs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A mistake is easily mended.
    Low,
    /// A mistake is felt.
    #[default]
    Medium,
    /// A mistake is an outage.
    High,
}

/// How many different people must say yes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum People {
    /// One person.
    #[default]
    One,
    /// Two different ones.
    Two,
}

impl People {
    /// The number.
    pub fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// Who must say yes before an action may happen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// How much it weighs.
    pub tier: Tier,
    /// How many people.
    pub people: People,
    /// Each of them must belong to one of these groups; to any, if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupName>,
}

impl Demand {
    /// Whether people who met this demand have met `other` too.
    pub fn covers(&self, other: &Self) -> bool {
        let groups = other.groups.is_empty()
            || (!self.groups.is_empty() && self.groups.iter().all(|group| other.groups.contains(group)));
        self.tier >= other.tier && self.people >= other.people && groups
    }

    /// What satisfies both this and `other`. Where both name groups, a person of either may approve: a
    /// demand that nobody could meet would be a deny in disguise.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.tier = self.tier.max(other.tier);
        self.people = self.people.max(other.people);
        self.groups.extend(other.groups);
        self.groups.sort();
        self.groups.dedup();
        self
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It may not happen.
    Deny,
    /// It may happen once these people have said yes to exactly this.
    NeedsApproval(Demand),
    /// It may happen.
    Allow,
}

/// A rule that led to a ruling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Its name, for machines: `prod-write`, `caps/max_writes_per_run`.
    pub rule: String,
    /// What it says, for people.
    pub says: String,
    /// The file it stands in; absent for the runtime's own rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line it begins at, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Reason {
    /// A rule of the runtime itself.
    pub fn runtime(rule: &str, says: impl AsRef<str>) -> Self {
        Self { rule: rule.to_owned(), says: bounded(says.as_ref(), REASON_CHARS_MAX), file: None, line: None }
    }
}

/// What policy says about one action, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The answer.
    pub ruling: Ruling,
    /// The rules that led to it, at most [`REASONS_MAX`].
    pub because: Vec<Reason>,
    /// The version of the policy that was asked.
    pub policy: Digest,
}

impl Verdict {
    /// The digest of the whole verdict.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/verdict/v1", self)
    }

    /// The same verdict with one more thing that must hold: it can only become stricter.
    #[must_use]
    pub fn tightened(mut self, to: Ruling, because: Reason) -> Self {
        self.ruling = match (self.ruling, to) {
            (Ruling::Deny, _) | (_, Ruling::Deny) => Ruling::Deny,
            (Ruling::NeedsApproval(one), Ruling::NeedsApproval(other)) => {
                Ruling::NeedsApproval(one.and(other))
            }
            (Ruling::NeedsApproval(demand), Ruling::Allow)
            | (Ruling::Allow, Ruling::NeedsApproval(demand)) => Ruling::NeedsApproval(demand),
            (Ruling::Allow, Ruling::Allow) => Ruling::Allow,
        };
        self.because.push(because);
        self.because.truncate(REASONS_MAX);
        self
    }
}
