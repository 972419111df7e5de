//! Ids and small numbers as types.
//!
//! Every text id is checked once, where it enters: a bounded length and a charset without the delimiters
//! that stores build keys from. A value of these types can therefore be joined into a key, a path or a log
//! line without a second look.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::text::checked_text;

/// Ids become key parts in a table whose keys hold at most 1,024 bytes; a key has at most four of them.
pub const ID_BYTES_MAX: usize = 128;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// Nothing there.
    #[error("{kind} is empty")]
    Empty {
        /// Which id was meant.
        kind: &'static str,
    },
    /// Dots alone, which a path would read as another place.
    #[error("{kind} is made of dots alone")]
    Dots {
        /// Which id was meant.
        kind: &'static str,
    },
    /// Longer than [`ID_BYTES_MAX`].
    #[error("{kind} has {bytes} bytes; at most {ID_BYTES_MAX} are allowed")]
    TooLong {
        /// Which id was meant.
        kind: &'static str,
        /// How long it is.
        bytes: usize,
    },
    /// A character outside the charset.
    #[error("{kind} holds {found:?} at position {at}; allowed are letters, digits, `.`, `_` and `-`")]
    Charset {
        /// Which id was meant.
        kind: &'static str,
        /// The character that is not allowed.
        found: char,
        /// Where it stands, counted in characters from 0.
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
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Checks `text` and takes it as an id.
            pub fn new(text: &str) -> Result<Self, InvalidId> {
                check($kind, text)?;
                Ok(Self(text.into()))
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
    /// Whose run it is. First in every key.
    TenantId, "tenant id"
);
text_id!(
    /// A part of a tenant.
    WorkspaceId, "workspace id"
);

impl Default for WorkspaceId {
    /// The part that a tenant has without naming any.
    fn default() -> Self {
        Self("default".into())
    }
}

text_id!(
    /// One execution of a workflow.
    RunId, "run id"
);
text_id!(
    /// The stable name of a step, from the workflow file.
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
    /// One incarnation of a worker process; a restart is a new worker.
    WorkerId, "worker id"
);
text_id!(
    /// What kind of event a step waits for.
    EventName, "event name"
);
text_id!(
    /// Names one delivery of an event, so that a second delivery changes nothing.
    SignalId, "signal id"
);
text_id!(
    /// Names one write. Whoever finds its own `OpId` on a record knows that the write landed.
    OpId, "op id"
);

text_id!(
    /// A person, as the tenant's directory names them, whatever channel they come through.
    PersonId, "person"
);
text_id!(
    /// A group of people who may approve.
    GroupName, "group"
);
text_id!(
    /// One request for approval.
    ApprovalId, "approval id"
);
text_id!(
    /// The public part of a key that somebody proves themselves with.
    KeyId, "key id"
);

impl ApprovalId {
    /// The `number`th request of `run`.
    pub fn derive(run: &RunKey, number: u32) -> Self {
        let digest = Digest::of_parts(
            "countersign/approval-id/v1",
            &[run.tenant.as_str().as_bytes(), run.run.as_str().as_bytes(), &number.to_be_bytes()],
        );
        Self(format!("ap-{}", &digest.to_string()[..32]).into())
    }
}

/// A run and whose it is. No query goes by run id alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which one.
    pub run: RunId,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.run)
    }
}

impl RunId {
    /// The run that `key` starts for `tenant`: the same key always names the same run, so that whoever
    /// accepts a trigger can already say which run it will be, and a repeated trigger finds it.
    pub fn derive(tenant: &TenantId, key: &crate::key::IdempotencyKey) -> Self {
        let digest = Digest::of_parts("countersign/run-id/v1", &[tenant.as_str(), key.as_str()]);
        // 128 bits: a tenant would need 2^64 runs before two keys were likely to share an id.
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
            /// The number after this one.
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
    /// Grows with every claim of a run's step and never falls. A holder's writes are accepted only while
    /// the record still shows its fence.
    Fence, u64
);
number!(
    /// Grows with every write of a run's record. A decision is committed only onto the version it was
    /// made from.
    Version, u64
);
number!(
    /// A step's place in its run, from 0.
    StepSeq, u16
);

impl StepSeq {
    /// The step as an index into a plan.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How far a mistake of a step would reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blast {
    /// One record, easily put right.
    #[default]
    Low,
    /// One service.
    Medium,
    /// More than one service, or people.
    High,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_no_key_delimiter() {
        for bad in ["a#b", "a:b", "a/b", "a b", "a\0b", "ä", "a\n"] {
            assert!(matches!(TenantId::new(bad), Err(InvalidId::Charset { .. })), "{bad:?}");
        }
    }

    #[test]
    fn an_id_is_bounded() {
        assert!(RunId::new(&"x".repeat(ID_BYTES_MAX)).is_ok());
        assert_eq!(
            RunId::new(&"x".repeat(ID_BYTES_MAX + 1)),
            Err(InvalidId::TooLong { kind: "run id", bytes: ID_BYTES_MAX + 1 })
        );
        assert_eq!(RunId::new(""), Err(InvalidId::Empty { kind: "run id" }));
    }

    #[test]
    fn the_same_key_names_the_same_run_and_only_for_its_tenant() {
        let key = crate::key::IdempotencyKey::new("api:cli:1").unwrap();
        let (a, b) = (TenantId::new("a").unwrap(), TenantId::new("b").unwrap());
        assert_eq!(RunId::derive(&a, &key), RunId::derive(&a, &key));
        assert_ne!(RunId::derive(&a, &key), RunId::derive(&b, &key));
    }
}
