//! Compares the stored records of an ended run with its signed bundle.

use domain::{Approval, Plan, RunRecord, StepRecord};

use crate::build::{finished, sorted};
use crate::bundle::{ApprovalSummary, BundleStep, EvidenceBundle, StepOutcome};
use crate::envelope;
use crate::error::VerifyError;
use crate::key::PublicKey;
use crate::verify::parse;

/// The ledger's records of an ended run, as they are now. The head in the record stands for the chain, so the caller
/// must verify the chain.
#[derive(Debug, Clone, Copy)]
pub struct StoredRun<'a> {
    pub record: &'a RunRecord,
    pub plan: &'a Plan,
    pub steps: &'a [StepRecord],
    pub approvals: &'a [Approval],
}

/// Whether a run has the content that was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealStatus {
    /// It has, and the given key signed the bundle.
    Matches,
    /// It has. The signature was not verified: there is no key, or another key signed the bundle.
    Unverified,
    /// It has not: `what` differs from the bundle, or the bundle is not valid.
    Altered { what: &'static str },
}

/// Compares a run with its bundle. Receipts are not compared.
pub fn compare(bytes: &[u8], key: Option<&PublicKey>, stored: &StoredRun<'_>) -> SealStatus {
    let opened = key.map(|key| envelope::open(bytes, key));
    let (payload, signed) = match opened {
        Some(Ok(payload)) => (Ok(payload), true),
        None | Some(Err(VerifyError::WrongKey { .. })) => (envelope::unverified(bytes), false),
        Some(Err(_)) => return SealStatus::Altered { what: "the signature of the bundle" },
    };
    let Ok(bundle) = payload.and_then(|payload| parse(&payload)) else {
        return SealStatus::Altered { what: "the format of the bundle" };
    };
    match difference(&bundle, stored) {
        Some(what) => SealStatus::Altered { what },
        None if signed => SealStatus::Matches,
        None => SealStatus::Unverified,
    }
}

fn difference(bundle: &EvidenceBundle, stored: &StoredRun<'_>) -> Option<&'static str> {
    let StoredRun { record, plan, steps, approvals } = *stored;
    if (bundle.run.events, bundle.run.head) != (record.events, record.head) {
        return Some("the chain of events");
    }
    if finished(record, plan).ok().as_ref() != Some(&bundle.run) {
        return Some("the record of the run");
    }
    if !plan.steps.iter().map(BundleStep::from).eq(bundle.steps.iter().cloned()) {
        return Some("the plan");
    }
    let outcomes: Vec<StepOutcome> = sorted(steps, |step| (step.seq, step.undo));
    if outcomes != bundle.outcomes {
        return Some("the outcome of a step");
    }
    let approvals: Vec<ApprovalSummary> = sorted(approvals, |approval| approval.id.clone());
    (approvals != bundle.approvals).then_some("an approval")
}
