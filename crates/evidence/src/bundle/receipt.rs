//! Receipts without values.

use domain::payload::Fingerprint;
use domain::receipt::ReceiptState;
use domain::{
    ApprovalId, Digest, EffectClass, Fence, IdempotencyKey, Receipt, Reversibility, RunId, StepId, StepSeq,
    TenantId, Timestamp, ToolName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An effect, what allowed it and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptSummary {
    /// Whose it is.
    pub tenant: TenantId,
    /// Which effect.
    pub key: IdempotencyKey,
    /// The run that had it; another one, if its result was reused.
    pub run: RunId,
    /// Its step.
    pub step: StepId,
    /// The step's place in its run.
    pub seq: StepSeq,
    /// Whether it is the undoing of the step.
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
    /// The fingerprint of what was found outside before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Fingerprint>,
    /// The digest of the verdict that allowed it.
    pub verdict: Digest,
    /// The approval that was used for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// How often it was written, from 0.
    pub revision: u32,
    /// When it was first intended.
    pub intended_at: Timestamp,
    /// How it stands.
    pub state: State,
}

/// How an effect stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", deny_unknown_fields)]
pub enum State {
    /// Somebody may have acted; no result is known.
    Intent,
    /// It happened.
    Done {
        /// When the result was recorded.
        at: Timestamp,
        /// The fingerprint of what came of it.
        result: Fingerprint,
        /// The fingerprint of what the other side said.
        response: Fingerprint,
        /// The call that would restore what was there before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inverse: Option<Inverse>,
    },
    /// It is known not to have happened.
    Failed {
        /// When that was recorded.
        at: Timestamp,
        /// A stable code for why.
        code: String,
    },
}

/// The call that would restore what was there before, without what it is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inverse {
    /// The tool, if the call names one.
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
            undo: receipt.undo,
            fence: receipt.fence,
            action: receipt.action,
            class: receipt.class,
            reversibility: receipt.reversibility.clone(),
            target: receipt.target.clone(),
            tool: receipt.tool.clone(),
            found: receipt.found.as_ref().map(Fingerprint::of),
            verdict: receipt.verdict,
            approval: receipt.approval.clone(),
            revision: receipt.revision,
            intended_at: receipt.intended_at,
            state: State::from(&receipt.state),
        }
    }
}

impl From<&ReceiptState> for State {
    fn from(state: &ReceiptState) -> Self {
        match state {
            ReceiptState::Intent => Self::Intent,
            ReceiptState::Done { at, fingerprint, response, inverse, .. } => Self::Done {
                at: *at,
                result: *fingerprint,
                response: Fingerprint::of(response),
                inverse: inverse.as_ref().map(Inverse::from),
            },
            ReceiptState::Failed { at, failure } => Self::Failed { at: *at, code: failure.code.clone() },
        }
    }
}

impl From<&Value> for Inverse {
    fn from(call: &Value) -> Self {
        let tool = call["tool"].as_str().and_then(|name| ToolName::new(name).ok());
        Self { tool, call: Fingerprint::of(call) }
    }
}

impl ReceiptSummary {
    /// Whether it was written for this very effect of this very step.
    pub fn is_of(&self, run: &RunId, seq: StepSeq, undo: bool) -> bool {
        self.run == *run && self.seq == seq && self.undo == undo
    }
}
