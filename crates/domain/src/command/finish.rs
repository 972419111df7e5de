//! Finish: the work succeeded. One commit closes the receipt, ends the step and makes the next step ready.

use serde_json::Value;

use crate::draft::{Draft, ReceiptChange};
use crate::event::ReceiptRef;
use crate::id::Fence;
use crate::payload::{Fingerprint, Payload};
use crate::receipt::{Receipt, ReceiptState};
use crate::record::ModelUsage;
use crate::refusal::Refusal;

use super::Command;
use super::ending::{self, AfterStep, PerformedEffect, Success};

/// Records the result of the work.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// The fence of the lease.
    pub fence: Fence,
    /// The output of the step.
    pub output: Payload,
    /// The fingerprint of the output.
    pub fingerprint: Fingerprint,
    /// Metadata of the external system's response.
    pub response: Value,
    /// The call that restores the previous state.
    pub inverse: Option<Value>,
    /// The cost in millionths of a US dollar.
    pub cost_microusd: u64,
    /// The metered usage behind the cost.
    pub usage: Option<ModelUsage>,
    /// The intent that came with the grant.
    pub receipt: Option<Receipt>,
}

impl Command for Finish {
    type Output = AfterStep;

    fn decide(self, draft: &mut Draft<'_>) -> Result<AfterStep, Refusal> {
        let lease = draft.lease(self.fence)?;
        let receipt = self.receipt.as_ref().map(|r| ReceiptRef { key: r.key.clone(), action: r.action });
        let success = Success {
            output: self.output.clone(),
            fingerprint: self.fingerprint,
            attempt: Some(ending::attempt_of(&lease)),
            effect: self.receipt.as_ref().map_or(PerformedEffect::None, PerformedEffect::of),
            receipt,
            cost_microusd: self.cost_microusd,
            usage: self.usage.clone(),
        };
        if let Some(change) = self.close_receipt(draft) {
            draft.receipts.push(change);
        }
        ending::succeed(draft, success)
    }
}

impl Finish {
    fn close_receipt(self, draft: &Draft<'_>) -> Option<ReceiptChange> {
        let receipt = self.receipt?;
        let replaces = Some(receipt.revision);
        let state = ReceiptState::Done {
            at: draft.now(),
            result: self.output,
            fingerprint: self.fingerprint,
            response: self.response,
            inverse: self.inverse,
        };
        let revision = receipt.revision.saturating_add(1);
        Some(ReceiptChange { replaces, displaces: None, receipt: Receipt { revision, state, ..receipt } })
    }
}
