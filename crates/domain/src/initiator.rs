//! Who or what caused a transition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::bounded;

/// A name, not a story; it stands in every event that somebody causes.
const ID_CHARS_MAX: usize = 256;

/// What kind of thing caused a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A person, through the command line or the API.
    User,
    /// The runtime itself: a worker doing its work.
    System,
    /// A deadline that passed.
    Timeout,
    /// A policy's verdict.
    Policy,
    /// A message from an outside system.
    Webhook,
    /// A person's answer to a request for approval.
    Approval,
}

/// Who or what caused a transition, and in which circumstances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initiator {
    /// The kind of cause.
    pub cause: Cause,
    /// Which one: a worker's id, a person's name, a webhook's source.
    pub id: String,
    /// What else is worth keeping: a reason, a request id. Never a secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
}

impl Initiator {
    /// An initiator without further context.
    pub fn new(cause: Cause, id: impl Into<String>) -> Self {
        let id = bounded(&id.into(), ID_CHARS_MAX);
        Self { cause, id, context: BTreeMap::new() }
    }

    /// The same with one more fact.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.context.insert(name.to_owned(), bounded(&value.into(), ID_CHARS_MAX));
        self
    }
}
