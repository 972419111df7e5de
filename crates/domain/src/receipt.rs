//! Receipts: what was attempted in an external system, what happened, and how to undo it.
//!
//! The primary key of a receipt is the idempotency key of its effect, so it is unique. The commit that claims the step
//! writes it as an intent. The commit that ends the attempt closes it. An intent without a result therefore means that
//! *a worker may have acted*.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::effect::{EffectClass, Reversibility};
use crate::failure::Failure;
use crate::id::{ApprovalId, Fence, RunId, StepId, StepSeq, TenantId, ToolName};
use crate::key::IdempotencyKey;
use crate::payload::{Fingerprint, Payload};
use crate::time::Timestamp;

/// The receipt of one effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// The tenant.
    pub tenant: TenantId,
    /// The idempotency key of the effect.
    pub key: IdempotencyKey,
    /// The run that intends, or performed, the effect.
    pub run: RunId,
    /// The step.
    pub step: StepId,
    /// The position of the step.
    pub seq: StepSeq,
    /// Whether the effect rolls back the step.
    pub rollback: bool,
    /// The fence of the last attempt.
    pub fence: Fence,
    /// The hash of the exact action.
    pub action: Digest,
    /// Whether and how the effect can be repeated.
    pub class: EffectClass,
    /// Whether the effect can be undone.
    pub reversibility: Reversibility,
    /// What it changes.
    pub target: String,
    /// The tool.
    pub tool: ToolName,
    /// The external state that was observed before the action was proposed. A worker that takes over proposes from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Value>,
    /// The digest of the verdict under which the effect was first intended.
    pub verdict: Digest,
    /// The approval that it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// Incremented by every write. A write names the revision that it replaces.
    pub revision: u32,
    /// When the effect was first intended.
    pub intended_at: Timestamp,
    /// The state.
    pub state: ReceiptState,
}

/// The state of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ReceiptState {
    /// A worker may have acted; the result is unknown.
    Intent,
    /// The effect happened.
    Done {
        /// When the result was recorded.
        at: Timestamp,
        /// The result, which is reused instead of acting again.
        result: Payload,
        /// The fingerprint of the result.
        fingerprint: Fingerprint,
        /// Metadata of the external system's response: a status, an id.
        response: Value,
        /// The call that restores the previous state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inverse: Option<Value>,
    },
    /// The effect is known not to have happened.
    Failed {
        /// When that was recorded.
        at: Timestamp,
        /// Why.
        failure: Failure,
    },
}

impl Receipt {
    /// Whether this receipt is for the effect, or the rollback, of this step.
    pub fn is_for_step(&self, run: &RunId, seq: StepSeq, rollback: bool) -> bool {
        self.run == *run && self.seq == seq && self.rollback == rollback
    }
}
