//! Compares the stored records of an ended run with its signed bundle.

use domain::{Approval, IdempotencyKey, Plan, Receipt, RunId, RunRecord, StepRecord};

use crate::build::{bundle_run, summarize_receipts, summarize_sorted};
use crate::bundle::{
    ApprovalSummary, BundleStep, EvidenceBundle, ReceiptStatus, ReceiptSummary, StepOutcome,
};
use crate::envelope::{self, BUNDLE};
use crate::error::VerifyError;
use crate::trusted_keys::TrustedKeys;
use crate::verify::parse;

/// The ledger's records of an ended run, as they are now. The head in the record stands for the chain, so the caller
/// must verify the chain.
#[derive(Debug, Clone, Copy)]
pub struct StoredRun<'a> {
    pub record: &'a RunRecord,
    pub plan: &'a Plan,
    pub steps: &'a [StepRecord],
    pub approvals: &'a [Approval],
    /// The receipts that [`final_receipts`] names, as far as the ledger has them.
    pub receipts: &'a [Receipt],
}

/// Whether a run has the content that was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BundleComparison {
    /// It has, and one of the given keys signed the bundle.
    Matches,
    /// It has. The signature was not verified, because no key was given.
    Unverified,
    /// It has, but the bundle names none of the given keys. Its signature proves nothing: a bundle that was
    /// replaced can name any key.
    OtherKey,
    /// It has not: `what` differs from the bundle, or the bundle is not valid.
    Altered { what: &'static str },
}

/// The receipts of a bundle that never change again, each with the run that wrote it. The signature is not verified; an
/// invalid bundle has none. What another run had left open may have a result since.
pub fn final_receipts(bytes: &[u8]) -> Vec<(IdempotencyKey, RunId)> {
    let bundle = envelope::unverified_payload(bytes).and_then(|payload| parse(&payload));
    let receipts = bundle.map(|bundle| {
        final_summaries(&bundle).map(|receipt| (receipt.key.clone(), receipt.run.clone())).collect()
    });
    receipts.unwrap_or_default()
}

fn final_summaries(bundle: &EvidenceBundle) -> impl Iterator<Item = &ReceiptSummary> {
    let is_final = |receipt: &&ReceiptSummary| {
        receipt.run == bundle.run.run || matches!(receipt.state, ReceiptStatus::Done { .. })
    };
    bundle.receipts.iter().filter(is_final)
}

/// Compares a run with its bundle.
pub fn compare(bytes: &[u8], keys: Option<&TrustedKeys>, stored: &StoredRun<'_>) -> BundleComparison {
    let (payload, status) = match keys.map(|keys| envelope::open(BUNDLE, bytes, keys.signer_of(bytes))) {
        Some(Ok(payload)) => (Ok(payload), BundleComparison::Matches),
        None => (envelope::unverified_payload(bytes), BundleComparison::Unverified),
        Some(Err(VerifyError::WrongKey { .. })) => {
            (envelope::unverified_payload(bytes), BundleComparison::OtherKey)
        }
        Some(Err(_)) => return BundleComparison::Altered { what: "the signature of the bundle" },
    };
    let Ok(bundle) = payload.and_then(|payload| parse(&payload)) else {
        return BundleComparison::Altered { what: "the format of the bundle" };
    };
    match first_difference(&bundle, stored) {
        Some(what) => BundleComparison::Altered { what },
        None => status,
    }
}

fn first_difference(bundle: &EvidenceBundle, stored: &StoredRun<'_>) -> Option<&'static str> {
    let StoredRun { record, plan, steps, approvals, receipts } = *stored;
    if (bundle.run.events, bundle.run.head) != (record.events, record.head) {
        return Some("the chain of events");
    }
    if bundle_run(record, plan).ok().as_ref() != Some(&bundle.run) {
        return Some("the record of the run");
    }
    if !plan.steps.iter().map(BundleStep::from).eq(bundle.steps.iter().cloned()) {
        return Some("the plan");
    }
    let outcomes: Vec<StepOutcome> = summarize_sorted(steps, |step| (step.seq, step.rollback));
    if outcomes != bundle.outcomes {
        return Some("the outcome of a step");
    }
    let approvals: Vec<ApprovalSummary> = summarize_sorted(approvals, |approval| approval.id.clone());
    if approvals != bundle.approvals {
        return Some("an approval");
    }
    let receipts: Option<Vec<ReceiptSummary>> = summarize_receipts(receipts).ok();
    let same = receipts.is_some_and(|receipts| final_summaries(bundle).eq(&receipts));
    (!same).then_some("a receipt")
}
