//! What a tool call would do outside, said before it is done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::id::ToolName;
use crate::json;
use crate::key::IdempotencyKey;
use crate::time::Millis;

/// What may be done when an intent has no result: the promise a tool makes about being asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing outside. Done again.
    ReadOnly,
    /// The other side drops a second request with the same key. Done again with the same key.
    NativeKey,
    /// The request carries a precondition that the effect itself makes false. Done again.
    CompareAndSet,
    /// The effect can be found by a unique field, and an old holder's requests can be shut out first.
    LookUp,
    /// None of these. Nobody guesses: the run pauses until a person decides.
    Opaque,
}

impl EffectClass {
    /// Whether the class changes anything outside, and so needs an intent before and a receipt after.
    pub fn has_effect(self) -> bool {
        match self {
            Self::ReadOnly => false,
            Self::NativeKey | Self::CompareAndSet | Self::LookUp | Self::Opaque => true,
        }
    }
}

/// Whether, and how, an effect can be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reversibility {
    /// There is nothing to take back.
    NoEffect,
    /// The receipt carries the call that restores what was there before.
    Inverse,
    /// Another call makes up for it, if the workflow names one.
    Compensable,
    /// It cannot be taken back; the text says why.
    Irreversible(String),
}

/// The exact change that is proposed, bound from persisted data before the claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Which tool.
    pub tool: ToolName,
    /// The version of the tool's contract the fields were bound under.
    pub contract: u32,
    /// What it promises about being asked again.
    pub class: EffectClass,
    /// Whether it can be taken back.
    pub reversibility: Reversibility,
    /// What it changes, for people and for keys: a host and path, a table and record.
    pub target: String,
    /// Names the effect. Present for every class that has one.
    pub key: IdempotencyKey,
    /// How long the other side remembers the key, if the class rests on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_retention: Option<Millis>,
    /// Every field, bound and defaulted.
    pub fields: Value,
    /// What changes, field by field, as far as the tool can say before it acts. The values that stood there
    /// are part of the action: if they change, it is another action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FieldChange>,
    /// Whether it destroys something.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destructive: bool,
    /// What it would cost at most, in millionths of a US dollar, where a tool can say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_microusd: Option<u64>,
}

/// One field that an action changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Which field.
    pub field: String,
    /// What stands there; absent if that is not known, or nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What would stand there.
    pub after: Value,
}

/// An action that people are to judge, or that a record must hold, has at most this many bytes.
pub const ACTION_BYTES_MAX: usize = 128 * 1024;

impl Action {
    /// The hash that stands in the intent, the receipt and the events, and that an approval binds to.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/action/v1", self)
    }

    /// The part of the tool's name that says which system it speaks to: `servicenow` of
    /// `servicenow.update`.
    pub fn connector(&self) -> &str {
        self.tool.as_str().split_once('.').map_or(self.tool.as_str(), |(connector, _)| connector)
    }

    /// The part of the tool's name that says what it does there.
    pub fn operation(&self) -> &str {
        self.tool.as_str().split_once('.').map_or(self.tool.as_str(), |(_, operation)| operation)
    }

    /// Refuses what could not be hashed, or judged, the same by everybody: a value that breaks the rules of
    /// [`json::check`], a fraction, too many bytes.
    pub fn check(&self) -> Result<(), String> {
        let values = self.changes.iter().flat_map(|change| change.before.iter().chain([&change.after]));
        for value in std::iter::once(&self.fields).chain(values) {
            json::check(value).map_err(|error| error.to_string())?;
            no_fraction(value)?;
        }
        match json::canonical(self).len() {
            bytes if bytes > ACTION_BYTES_MAX => {
                Err(format!("the action has {bytes} bytes; nobody can judge more than {ACTION_BYTES_MAX}"))
            }
            _ => Ok(()),
        }
    }
}

fn no_fraction(value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() != 0.0) => {
            Err(format!("the fraction {number} may be rounded by whoever reads it; send it as a text"))
        }
        Value::Array(items) => items.iter().try_for_each(no_fraction),
        Value::Object(fields) => fields.values().try_for_each(no_fraction),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}
