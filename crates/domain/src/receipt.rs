//! Receipts: what was attempted outside, what happened, and how to undo it.
//!
//! A receipt is keyed by the effect's idempotency key, so that uniqueness is the primary key. It is written
//! as an intent in the same commit that claims the step, and closed in the same commit that takes the step
//! out of running. An intent without a result therefore means exactly: *a holder may have acted*.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::effect::{EffectClass, Reversibility};
use crate::failure::Failure;
use crate::id::{ApprovalId, Fence, RunId, StepId, StepSeq, TenantId, ToolName};
use crate::key::IdempotencyKey;
use crate::payload::{Fingerprint, Payload};
use crate::time::Timestamp;

/// One effect's receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which effect.
    pub key: IdempotencyKey,
    /// The run that intends, or did, the effect.
    pub run: RunId,
    /// Its step.
    pub step: StepId,
    /// The step's place in its run.
    pub seq: StepSeq,
    /// Whether the effect is the step's own, or the undoing of it.
    pub undo: bool,
    /// The fence under which it was last intended.
    pub fence: Fence,
    /// The hash of the exact action.
    pub action: Digest,
    /// What is promised about being asked again.
    pub class: EffectClass,
    /// Whether it can be taken back.
    pub reversibility: Reversibility,
    /// What it changes.
    pub target: String,
    /// The tool that does it.
    pub tool: ToolName,
    /// What was found outside before the action was proposed: whoever takes over proposes from this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Value>,
    /// The digest of the verdict under which it was first intended.
    pub verdict: Digest,
    /// The approval that was used for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// Grows with every write of this receipt; a write names the one it replaces.
    pub revision: u32,
    /// When it was first intended.
    pub intended_at: Timestamp,
    /// How it stands.
    pub state: ReceiptState,
}

/// How an effect stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ReceiptState {
    /// Somebody may have acted; no result is known.
    Intent,
    /// It happened.
    Done {
        /// When the result was recorded.
        at: Timestamp,
        /// What came of it, reused instead of acting again.
        result: Payload,
        /// Its fingerprint.
        fingerprint: Fingerprint,
        /// What the other side said, in metadata: a status, an id.
        response: Value,
        /// The call that would restore what was there before, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inverse: Option<Value>,
    },
    /// It is known not to have happened.
    Failed {
        /// When that was recorded.
        at: Timestamp,
        /// Why.
        failure: Failure,
    },
}

impl Receipt {
    /// Whether this receipt was written for this very effect of this very step.
    pub fn is_of(&self, run: &RunId, seq: StepSeq, undo: bool) -> bool {
        self.run == *run && self.seq == seq && self.undo == undo
    }
}
