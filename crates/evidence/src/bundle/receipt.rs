//! Receipts, with fingerprints instead of values.

use domain::payload::Fingerprint;
use domain::receipt::ReceiptState;
use domain::{
    ApprovalId, Digest, EffectClass, Fence, IdempotencyKey, Receipt, Reversibility, RunId, StepId, StepSeq,
    TenantId, Timestamp, ToolName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An effect with its verdict, its approval and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptSummary {
    pub tenant: TenantId,
    pub key: IdempotencyKey,
    /// The run that performed the effect: another run if its result was reused.
    pub run: RunId,
    pub step: StepId,
    pub seq: StepSeq,
    /// Whether it is the rollback of the step.
    pub rollback: bool,
    /// The fence of the last attempt.
    pub fence: Fence,
    /// The hash of the action.
    pub action: Digest,
    pub class: EffectClass,
    pub reversibility: Reversibility,
    pub target: String,
    pub tool: ToolName,
    /// The fingerprint of the observed state before the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Fingerprint>,
    /// The digest of the verdict that allowed it.
    pub verdict: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The number of updates of the receipt.
    pub revision: u32,
    /// The time of the first intent.
    pub intended_at: Timestamp,
    pub state: ReceiptStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", deny_unknown_fields)]
pub enum ReceiptStatus {
    /// The effect may have happened; no result is recorded.
    Intent,
    Done {
        /// The time when the result was recorded.
        at: Timestamp,
        result: Fingerprint,
        /// The fingerprint of the external system's response.
        response: Fingerprint,
        /// The call that restores the previous state.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inverse: Option<InverseSummary>,
    },
    /// The effect did not happen.
    Failed {
        /// The time when the failure was recorded.
        at: Timestamp,
        /// A stable error code.
        code: String,
    },
}

/// The call that restores the previous state, without its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InverseSummary {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// The fingerprint of the whole call.
    pub call: Fingerprint,
}

impl From<&Receipt> for ReceiptSummary {
    fn from(receipt: &Receipt) -> Self {
        Self {
            tenant: receipt.tenant.clone(),
            key: receipt.key.clone(),
            run: receipt.run.clone(),
            step: receipt.step.clone(),
            seq: receipt.seq,
            rollback: receipt.rollback,
            fence: receipt.fence,
            action: receipt.action,
            class: receipt.class,
            reversibility: receipt.reversibility.clone(),
            target: receipt.target.clone(),
            tool: receipt.tool.clone(),
            observed: receipt.observed.as_ref().map(Fingerprint::of),
            verdict: receipt.verdict,
            approval: receipt.approval.clone(),
            revision: receipt.revision,
            intended_at: receipt.intended_at,
            state: ReceiptStatus::from(&receipt.state),
        }
    }
}

impl From<&ReceiptState> for ReceiptStatus {
    fn from(state: &ReceiptState) -> Self {
        match state {
            ReceiptState::Intent => Self::Intent,
            ReceiptState::Done { at, fingerprint, response, inverse, .. } => Self::Done {
                at: *at,
                result: *fingerprint,
                response: Fingerprint::of(response),
                inverse: inverse.as_ref().map(InverseSummary::from),
            },
            ReceiptState::Failed { at, failure } => Self::Failed { at: *at, code: failure.code.clone() },
        }
    }
}

impl From<&Value> for InverseSummary {
    fn from(call: &Value) -> Self {
        let tool = call["tool"].as_str().and_then(|name| ToolName::new(name).ok());
        Self { tool, call: Fingerprint::of(call) }
    }
}

impl ReceiptSummary {
    /// Whether it belongs to this step, or to its rollback, of this run.
    pub fn is_for_step(&self, run: &RunId, seq: StepSeq, rollback: bool) -> bool {
        self.run == *run && self.seq == seq && self.rollback == rollback
    }
}
