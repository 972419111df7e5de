//! Ids and small numbers as types.
//!
//! Every text id is checked once, where it enters: its length is bounded, and its characters exclude the delimiters of
//! store keys. Values of these types are therefore safe in keys, paths and log lines.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantNames};

use crate::digest::Digest;
use crate::text::checked_text;

/// A store key has at most 1,024 bytes and at most four ids.
pub const ID_BYTES_MAX: usize = 128;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// The text is empty.
    #[error("{kind} is empty")]
    Empty {
        /// The kind of id.
        kind: &'static str,
    },
    /// Only dots, which a path would resolve to another directory.
    #[error("{kind} consists of dots only")]
    Dots {
        /// The kind of id.
        kind: &'static str,
    },
    /// Longer than [`ID_BYTES_MAX`].
    #[error("{kind} has {bytes} bytes; the maximum is {ID_BYTES_MAX}")]
    TooLong {
        /// The kind of id.
        kind: &'static str,
        /// The length.
        bytes: usize,
    },
    /// A character that is not allowed.
    #[error("{kind} contains {found:?} at position {at}; allowed are letters, digits, `.`, `_` and `-`")]
    Charset {
        /// The kind of id.
        kind: &'static str,
        /// The character.
        found: char,
        /// Its position, in characters from 0.
        at: usize,
    },
}

fn check(kind: &'static str, text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty { kind });
    }
    if text.len() > ID_BYTES_MAX {
        return Err(InvalidId::TooLong { kind, bytes: text.len() });
    }
    if text.bytes().all(|byte| byte == b'.') {
        return Err(InvalidId::Dots { kind });
    }
    match text.chars().enumerate().find(|(_, c)| !is_id_char(*c)) {
        Some((at, found)) => Err(InvalidId::Charset { kind, found, at }),
        None => Ok(()),
    }
}

fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        text_id!($(#[$doc])* $name, $kind, std::convert::identity);
    };
    // `$normal` maps the checked text to its only spelling.
    ($(#[$doc:meta])* $name:ident, $kind:literal, $normal:path) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Checks `text`.
            pub fn new(text: &str) -> Result<Self, InvalidId> {
                check($kind, text)?;
                Ok(Self($normal(text).into()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        checked_text!($name, InvalidId);
    };
}

text_id!(
    /// A tenant. First in every key.
    TenantId, "tenant id"
);
text_id!(
    /// A workspace of a tenant.
    WorkspaceId, "workspace id"
);

impl Default for WorkspaceId {
    /// The workspace of a tenant that names none.
    fn default() -> Self {
        Self("default".into())
    }
}

text_id!(
    /// One execution of a workflow.
    RunId, "run id"
);
text_id!(
    /// The stable id of a step, from the workflow file.
    StepId, "step id"
);
text_id!(
    /// The name of a workflow.
    WorkflowName, "workflow name"
);
text_id!(
    /// The name of a tool, such as `http.request`.
    ToolName, "tool name"
);
text_id!(
    /// A tenant's name for an external system.
    ConnectionName, "connection name"
);
text_id!(
    /// One worker process; a restarted worker has a new id.
    WorkerId, "worker id"
);
text_id!(
    /// The kind of event that a step waits for.
    EventName, "event name"
);
text_id!(
    /// One delivery of an event, so that a repeated delivery changes nothing.
    SignalId, "signal id"
);
text_id!(
    /// One write. A caller that finds its own `OpId` on a record knows that its write was committed.
    OpId, "op id"
);

text_id!(
    /// A user, as the tenant's directory names them, on every channel. Always in lower case, so that `Ada` and `ada`
    /// are one user.
    PersonId, "person", str::to_ascii_lowercase
);
text_id!(
    /// A group of users who may approve.
    GroupName, "group"
);
text_id!(
    /// One request for approval.
    ApprovalId, "approval id"
);
text_id!(
    /// The public part of an API key.
    KeyId, "key id"
);

impl ApprovalId {
    /// The id of approval `number` of `run`.
    pub fn derive(run: &RunKey, number: u32) -> Self {
        let digest = Digest::of_parts(
            "countersign/approval-id/v1",
            &[run.tenant.as_str().as_bytes(), run.run.as_str().as_bytes(), &number.to_be_bytes()],
        );
        Self(format!("ap-{}", &digest.to_string()[..32]).into())
    }
}

/// A run and its tenant. No query uses the run id alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.run)
    }
}

impl RunId {
    /// The run that `key` starts for `tenant`. The same key always names the same run, so the id is known before the
    /// run exists, and a repeated trigger finds it.
    pub fn derive(tenant: &TenantId, key: &crate::key::IdempotencyKey) -> Self {
        let digest = Digest::of_parts("countersign/run-id/v1", &[tenant.as_str(), key.as_str()]);
        // 128 bits: two keys of a tenant are unlikely to collide below 2^64 runs.
        Self(format!("run-{}", &digest.to_string()[..32]).into())
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $of:ty) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $of);

        impl $name {
            /// The next number.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Incremented by every claim of a run. A worker's writes are accepted only while the record has its fence.
    Fence, u64
);
number!(
    /// Incremented by every write of a run's record. A decision is committed only onto the version it was made from.
    Version, u64
);
number!(
    /// The position of a step in its run, from 0.
    StepSeq, u16
);

impl StepSeq {
    /// The position as an index into a plan.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How far a mistake of a step reaches.
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
pub enum BlastRadius {
    /// One record, easily corrected.
    #[default]
    Low,
    /// One service.
    Medium,
    /// More than one service, or users.
    High,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_rejects_delimiters() {
        for bad in ["a#b", "a:b", "a/b", "a b", "a\0b", "ä", "a\n"] {
            assert!(matches!(TenantId::new(bad), Err(InvalidId::Charset { .. })), "{bad:?}");
        }
    }

    #[test]
    fn id_length_is_bounded() {
        assert!(RunId::new(&"x".repeat(ID_BYTES_MAX)).is_ok());
        assert_eq!(
            RunId::new(&"x".repeat(ID_BYTES_MAX + 1)),
            Err(InvalidId::TooLong { kind: "run id", bytes: ID_BYTES_MAX + 1 })
        );
        assert_eq!(RunId::new(""), Err(InvalidId::Empty { kind: "run id" }));
    }

    #[test]
    fn run_id_depends_on_tenant_and_key() {
        let key = crate::key::IdempotencyKey::new("api:cli:1").unwrap();
        let (a, b) = (TenantId::new("a").unwrap(), TenantId::new("b").unwrap());
        assert_eq!(RunId::derive(&a, &key), RunId::derive(&a, &key));
        assert_ne!(RunId::derive(&a, &key), RunId::derive(&b, &key));
    }
}
