//! Actions: the effect of a tool call, described before it is performed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::Display;

use crate::connection::ActionConnection;
use crate::digest::Digest;
use crate::id::ToolName;
use crate::json;
use crate::key::IdempotencyKey;
use crate::plan::Environment;
use crate::time::Millis;

/// Whether and how a tool's effect can be repeated when its outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EffectClass {
    /// Computes its output from its input and contacts no external system. Policy is not evaluated.
    Pure,
    /// Reads an external system and changes nothing. Safe to repeat.
    ReadOnly,
    /// The external system ignores a second request with the same key. Safe to repeat with the same key.
    NativeKey,
    /// The request carries a precondition that the effect makes false. Safe to repeat.
    CompareAndSet,
    /// The effect can be found by a unique field, and the previous worker's access can be revoked first.
    LookUp,
    /// None of these. The run pauses until an operator decides.
    Opaque,
}

impl EffectClass {
    /// Whether the class changes an external system, and so needs an intent and a receipt.
    pub fn has_effect(self) -> bool {
        match self {
            Self::Pure | Self::ReadOnly => false,
            Self::NativeKey | Self::CompareAndSet | Self::LookUp | Self::Opaque => true,
        }
    }

    /// Whether the call sends a request to an external system, and so needs a verdict.
    pub fn calls_out(self) -> bool {
        self != Self::Pure
    }
}

/// Where the call of an action comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionOrigin {
    /// A step of the workflow.
    Forward,
    /// The receipt of the effect that is rolled back. The tool recorded the call, and it restores the previous state.
    RecordedInverse,
    /// The `rollback` that the author of the workflow wrote. It may change anything, so it is evaluated as a step.
    DeclaredRollback,
}

/// Whether and how an effect can be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reversibility {
    /// There is no effect.
    NoEffect,
    /// The receipt contains the call that restores the previous state.
    Inverse,
    /// Another call compensates for it, if the workflow names one.
    Compensable,
    /// It cannot be undone; the text says why.
    Irreversible(String),
}

/// The exact change that a step proposes, computed from persisted data before the claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// The tool.
    pub tool: ToolName,
    /// The version of the tool's contract.
    pub contract: u32,
    /// Whether and how the effect can be repeated.
    pub class: EffectClass,
    /// Whether the effect can be undone.
    pub reversibility: Reversibility,
    /// What the action changes, for approvers and for keys: a host and path, a table and record.
    pub target: String,
    /// Identifies the effect.
    pub key: IdempotencyKey,
    /// How long the external system remembers the key, if the class depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_retention: Option<Millis>,
    /// All fields, evaluated and with defaults.
    pub fields: Value,
    /// The changes, field by field, as far as the tool can tell. The previous values are part of the action: if they
    /// differ, it is another action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
    /// Whether the action destroys data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destructive: bool,
    /// The maximum cost in millionths of a US dollar, if the tool can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_microusd: Option<u64>,
    /// The connection that the action uses, with its environment. The engine sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ActionConnection>,
}

/// A change to one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The field.
    pub field: String,
    /// The current value; absent if unknown or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The new value.
    pub after: Value,
}

/// An idempotency key is used again only if it is remembered for this much longer: the longest call, and the difference
/// of two clocks.
pub const KEY_RETENTION_MARGIN: Millis = Millis::mins(15);

/// The maximum size of an action, so that approvers can review it and a record can hold it.
pub const ACTION_BYTES_MAX: usize = 128 * 1024;

impl Action {
    /// The hash in the intent, the receipt and the events. An approval is bound to it.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/action/v1", self)
    }

    /// The environment of the action in a workflow for `workflow`: that of its connection. A workflow can only be
    /// stricter.
    pub fn environment(&self, workflow: Environment) -> Environment {
        self.connection.as_ref().map_or(workflow, |connection| connection.environment.max(workflow))
    }

    /// The first part of the tool's name: `servicenow` of `servicenow.update`.
    pub fn connector(&self) -> &str {
        self.tool.as_str().split_once('.').map_or(self.tool.as_str(), |(connector, _)| connector)
    }

    /// The second part of the tool's name: `update` of `servicenow.update`.
    pub fn operation(&self) -> &str {
        self.tool.as_str().split_once('.').map_or(self.tool.as_str(), |(_, operation)| operation)
    }

    /// Refuses values that readers could hash or evaluate differently, as [`json::check`] does, and a change above the
    /// size limit. A read is neither stored nor shown to approvers, so its size is that of its input.
    pub fn check(&self) -> Result<(), String> {
        let values = self.changes.iter().flat_map(|change| change.before.iter().chain([&change.after]));
        for value in std::iter::once(&self.fields).chain(values) {
            json::check(value).map_err(|error| error.to_string())?;
        }
        if !self.class.has_effect() {
            return Ok(());
        }
        match json::canonical(self).len() {
            bytes if bytes > ACTION_BYTES_MAX => {
                Err(format!("the action has {bytes} bytes; the maximum is {ACTION_BYTES_MAX}"))
            }
            _ => Ok(()),
        }
    }
}
