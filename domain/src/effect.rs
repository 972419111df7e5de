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
}

impl Action {
    /// The hash that stands in the intent, the receipt and the events, and that an approval binds to.
    pub fn hash(&self) -> Digest {
        json::digest("countersign/action/v1", self)
    }
}
