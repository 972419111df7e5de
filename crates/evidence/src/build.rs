//! Builds a bundle.
//!
//! A bundle passes all verification checks before it is signed, so that it cannot fail verification later, when the
//! ledger may no longer exist.

use std::collections::BTreeMap;

use domain::chain::StoredEvent;
use domain::json::{self, InvalidJson};
use domain::receipt::ReceiptState;
use domain::{
    Approval, Digest, Event, IdempotencyKey, Plan, Receipt, RunKey, RunRecord, RunStatus, StepRecord, view,
};
use serde_json::Value;

use crate::bundle::{BundleRun, BundleStep, ChainEntry, Costs, EvidenceBundle, FORMAT};
use crate::check::{self, effects::ReceiptOwner};
use crate::envelope::{self, BUNDLE, BYTES_MAX};
use crate::error::VerifyError;
use crate::key::SigningKey;
use crate::log::{self, LogEntry, LogProof};

/// The ledger's records of a finished run. The order of steps, receipts and approvals does not matter.
#[derive(Debug, Clone, Copy)]
pub struct BundleInput<'a> {
    pub record: &'a RunRecord,
    pub plan: &'a Plan,
    /// The chain.
    pub entries: &'a [StoredEvent],
    pub steps: &'a [StepRecord],
    /// The receipts of the effects in the chain: see [`effects_of`].
    pub receipts: &'a [Receipt],
    pub approvals: &'a [Approval],
    pub log: LogEntry<'a>,
}

/// Why a bundle cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("run {run} is {status}; only finished runs have evidence")]
    NotFinished { run: RunKey, status: RunStatus },
    #[error("the given plan is {given}, but the run was admitted with plan {admitted}")]
    OtherPlan { given: Digest, admitted: Digest },
    #[error("invalid log name {origin:?}; use one word of visible ASCII characters without `+`")]
    Origin { origin: String },
    /// A value that JSON parsers interpret differently, so that its fingerprint would be ambiguous.
    #[error("receipt {key} contains a value without a fingerprint: {source}")]
    Receipt { key: IdempotencyKey, source: InvalidJson },
    /// A value that JSON parsers interpret differently.
    #[error("the run contains a value that cannot be serialized: {0}")]
    Value(InvalidJson),
    #[error("entry {n} of the chain is not valid JSON: {why}")]
    Entry { n: usize, why: InvalidJson },
    #[error("the bundle has {bytes} bytes; at most {BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("the records of the run are inconsistent: {0}")]
    Inconsistent(VerifyError),
}

/// The effects in the chain of a run, and for each the owner of the receipt that its bundle contains.
pub fn effects_of(entries: &[StoredEvent]) -> Result<BTreeMap<IdempotencyKey, ReceiptOwner>, BuildError> {
    let events = parse_events(entries)?;
    Ok(check::effects::receipt_owners(&events).into_iter().map(|(key, owner)| (key.clone(), owner)).collect())
}

fn parse_events(entries: &[StoredEvent]) -> Result<Vec<Event>, BuildError> {
    let parse = |(n, entry): (usize, &StoredEvent)| {
        let invalid =
            |error: serde_json::Error| BuildError::Entry { n, why: InvalidJson::Value(error.to_string()) };
        serde_json::from_slice(&entry.canonical).map_err(invalid)
    };
    entries.iter().enumerate().map(parse).collect()
}

/// Builds the bundle of a finished run, signed with `key`. The same run gives the same bytes.
pub fn build(source: &BundleInput<'_>, key: &SigningKey) -> Result<Vec<u8>, BuildError> {
    let bundle = assemble(source, key)?;
    check::check(&bundle, &mut |_| {}).map_err(BuildError::Inconsistent)?;
    if bundle.costs.total_microusd != source.record.cost_microusd {
        return Err(BuildError::Inconsistent(VerifyError::Costs));
    }
    sign_bundle(&bundle, key)
}

fn sign_bundle(bundle: &EvidenceBundle, key: &SigningKey) -> Result<Vec<u8>, BuildError> {
    let invalid = |error: serde_json::Error| BuildError::Value(InvalidJson::Value(error.to_string()));
    let value = serde_json::to_value(bundle).map_err(invalid)?;
    json::check(&value).map_err(BuildError::Value)?;
    let bytes = envelope::sign(BUNDLE, &json::canonical(&value), key);
    if bytes.len() > BYTES_MAX { Err(BuildError::TooLarge { bytes: bytes.len() }) } else { Ok(bytes) }
}

fn assemble(source: &BundleInput<'_>, key: &SigningKey) -> Result<EvidenceBundle, BuildError> {
    let BundleInput { record, plan, log, .. } = *source;
    let run = bundle_run(record, plan)?;
    if !log::is_origin(log.origin) {
        return Err(BuildError::Origin { origin: log.origin.to_owned() });
    }
    let steps: Vec<BundleStep> = plan.steps.iter().map(BundleStep::from).collect();
    let outcomes = summarize_sorted(source.steps, |step| (step.seq, step.rollback));
    let receipts = summarize_receipts(source.receipts)?;
    let compensations = match record.status {
        RunStatus::Succeeded => Vec::new(),
        _ => view::compensation_log(plan, source.steps).into_iter().map(Into::into).collect(),
    };
    Ok(EvidenceBundle {
        format: FORMAT.to_owned(),
        run,
        chain: chain_entries(source.entries)?,
        approvals: summarize_sorted(source.approvals, |approval| approval.id.clone()),
        compensations,
        costs: Costs::new(&steps, &outcomes, &receipts, &parse_events(source.entries)?),
        log: LogProof::signed(&log, key),
        steps,
        outcomes,
        receipts,
    })
}

pub(crate) fn bundle_run(record: &RunRecord, plan: &Plan) -> Result<BundleRun, BuildError> {
    let not_finished = || BuildError::NotFinished { run: record.key.clone(), status: record.status };
    let completed_at =
        record.completed_at.filter(|_| record.status.is_terminal()).ok_or_else(not_finished)?;
    let given = plan.hash();
    if given != record.plan {
        return Err(BuildError::OtherPlan { given, admitted: record.plan });
    }
    Ok(BundleRun {
        tenant: record.key.tenant.clone(),
        run: record.key.run.clone(),
        workspace: record.workspace.clone(),
        workflow: record.workflow.clone(),
        version: record.workflow_version,
        environment: plan.environment,
        plan: record.plan,
        trigger: record.trigger.clone(),
        author: plan.author.clone(),
        status: record.status,
        created_at: record.created_at,
        completed_at,
        duration_ms: completed_at - record.created_at,
        resumes: record.resumes,
        effects: record.effects,
        events: record.events,
        head: record.head,
    })
}

fn chain_entries(stored: &[StoredEvent]) -> Result<Vec<ChainEntry>, BuildError> {
    let entry = |(n, stored): (usize, &StoredEvent)| {
        let event = json::parse(&stored.canonical).map_err(|why| BuildError::Entry { n, why })?;
        Ok(ChainEntry { event, hash: stored.hash })
    };
    stored.iter().enumerate().map(entry).collect()
}

/// Summarizes receipts and checks that every value has an unambiguous fingerprint: a rounded number would share its
/// fingerprint with another number.
pub(crate) fn summarize_receipts<T: for<'a> From<&'a Receipt>>(
    receipts: &[Receipt],
) -> Result<Vec<T>, BuildError> {
    for receipt in receipts {
        let checked = receipt_values(receipt).into_iter().try_for_each(json::check);
        checked.map_err(|source| BuildError::Receipt { key: receipt.key.clone(), source })?;
    }
    Ok(summarize_sorted(receipts, |receipt| receipt.key.clone()))
}

fn receipt_values(receipt: &Receipt) -> Vec<&Value> {
    let (response, inverse) = match &receipt.state {
        ReceiptState::Done { response, inverse, .. } => (Some(response), inverse.as_ref()),
        ReceiptState::Intent | ReceiptState::Failed { .. } => (None, None),
    };
    receipt.observed.iter().chain(response).chain(inverse).collect()
}

/// Sorts `records` by key and summarizes them.
pub(crate) fn summarize_sorted<R, T: for<'a> From<&'a R>, K: Ord>(
    records: &[R],
    key: impl Fn(&R) -> K,
) -> Vec<T> {
    let mut records: Vec<&R> = records.iter().collect();
    records.sort_by_key(|record| key(record));
    records.into_iter().map(T::from).collect()
}
