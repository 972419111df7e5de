//! Who or what caused a transition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::bounded;

/// The maximum length of an id. It is part of every event.
const ID_CHARS_MAX: usize = 256;

/// The kind of cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A user, through the command line or the API.
    User,
    /// The runtime: a worker that does its work.
    System,
    /// A deadline that passed.
    Timeout,
    /// A policy verdict.
    Policy,
    /// A message from an external system.
    Webhook,
    /// A user's vote on an approval.
    Approval,
}

/// Who or what caused a transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initiator {
    /// The kind of cause.
    pub cause: Cause,
    /// The id: of a worker, a user or a webhook source.
    pub id: String,
    /// Further facts, such as a reason or a request id. Never a secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
}

impl Initiator {
    /// An initiator without context.
    pub fn new(cause: Cause, id: impl Into<String>) -> Self {
        let id = bounded(&id.into(), ID_CHARS_MAX);
        Self { cause, id, context: BTreeMap::new() }
    }

    /// Adds a fact to the context.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.context.insert(name.to_owned(), bounded(&value.into(), ID_CHARS_MAX));
        self
    }
}
