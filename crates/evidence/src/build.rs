//! Putting a bundle together.
//!
//! What is signed here has passed the same checks as it will when it is verified: nobody is handed a bundle
//! that will be refused later, when the ledger may be gone.

use std::collections::BTreeMap;

use domain::chain::StoredEvent;
use domain::json::{self, InvalidJson};
use domain::receipt::ReceiptState;
use domain::{
    Approval, Digest, Event, IdempotencyKey, Plan, Receipt, RunKey, RunRecord, RunStatus, StepRecord, view,
};
use serde_json::Value;

use crate::bundle::{Bundle, Costs, Entry, FORMAT, Run, Step};
use crate::check::{self, effects::Whose};
use crate::envelope::{self, BYTES_MAX};
use crate::fault::Fault;
use crate::key::SigningKey;
use crate::log::{self, Log, LogEntry};

/// Everything the ledger holds of a finished run. The order of steps, receipts and approvals is of no
/// matter.
#[derive(Debug, Clone, Copy)]
pub struct Material<'a> {
    /// The run.
    pub record: &'a RunRecord,
    /// Its plan.
    pub plan: &'a Plan,
    /// Its chain.
    pub entries: &'a [StoredEvent],
    /// How its steps ended.
    pub steps: &'a [StepRecord],
    /// The receipts of the effects that its events speak of: see [`effects_of`].
    pub receipts: &'a [Receipt],
    /// The requests for approval.
    pub approvals: &'a [Approval],
    /// Where it stands in the log of runs.
    pub log: LogEntry<'a>,
}

/// Why a run has no bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The run can still move.
    #[error("run {run} is {status}; there is evidence of finished runs alone")]
    NotOver {
        /// Which run.
        run: RunKey,
        /// Where it stands.
        status: RunStatus,
    },
    /// The plan is not the one the run was admitted with.
    #[error("the plan given is {given}; the run was admitted with {admitted}")]
    OtherPlan {
        /// The one given.
        given: Digest,
        /// The one that counts.
        admitted: Digest,
    },
    /// The log has a name that cannot stand in a note.
    #[error("{origin:?} cannot be the name of a log: one word of visible ASCII without `+` can")]
    Origin {
        /// The name.
        origin: String,
    },
    /// A receipt holds a value that readers disagree about, so that its fingerprint would mean nothing.
    #[error("the receipt {key} holds a value that has no fingerprint: {source}")]
    Receipt {
        /// Which effect.
        key: IdempotencyKey,
        /// What is wrong.
        source: InvalidJson,
    },
    /// The material holds a value that readers disagree about.
    #[error("the run holds a value that cannot be written down: {0}")]
    Value(InvalidJson),
    /// An entry of the chain is not JSON.
    #[error("entry {n} of the chain cannot be read: {why}")]
    Entry {
        /// Which one.
        n: usize,
        /// What is wrong.
        why: InvalidJson,
    },
    /// More than a bundle holds.
    #[error("the bundle has {bytes} bytes; at most {BYTES_MAX} are allowed")]
    TooLarge {
        /// How many it has.
        bytes: usize,
    },
    /// The ledger's own records contradict each other.
    #[error("the records of the run do not agree: {0}")]
    Fault(Fault),
}

/// The effects that the events of a run speak of, and whose receipt of each belongs into its bundle.
pub fn effects_of(entries: &[StoredEvent]) -> Result<BTreeMap<IdempotencyKey, Whose>, BuildError> {
    let read = |(n, entry): (usize, &StoredEvent)| {
        let unreadable =
            |error: serde_json::Error| BuildError::Entry { n, why: InvalidJson::Value(error.to_string()) };
        serde_json::from_slice(&entry.canonical).map_err(unreadable)
    };
    let events: Vec<Event> = entries.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok(check::effects::whose(&events).into_iter().map(|(key, whose)| (key.clone(), whose)).collect())
}

/// The bundle of a finished run, signed with `key`. The same run gives the same bytes.
pub fn build(material: &Material<'_>, key: &SigningKey) -> Result<Vec<u8>, BuildError> {
    let bundle = assemble(material, key)?;
    check::check(&bundle, &mut |_| {}).map_err(BuildError::Fault)?;
    // The record counts what the steps cost, and what taking them back did.
    let paid = bundle.outcomes.iter().map(|outcome| outcome.cost_microusd).fold(0, u64::saturating_add);
    if paid != material.record.cost_microusd {
        return Err(BuildError::Fault(Fault::Costs));
    }
    sealed(&bundle, key)
}

fn sealed(bundle: &Bundle, key: &SigningKey) -> Result<Vec<u8>, BuildError> {
    let invalid = |error: serde_json::Error| BuildError::Value(InvalidJson::Value(error.to_string()));
    let value = serde_json::to_value(bundle).map_err(invalid)?;
    json::check(&value).map_err(BuildError::Value)?;
    let bytes = envelope::seal(&json::canonical(&value), key);
    if bytes.len() > BYTES_MAX { Err(BuildError::TooLarge { bytes: bytes.len() }) } else { Ok(bytes) }
}

fn assemble(material: &Material<'_>, key: &SigningKey) -> Result<Bundle, BuildError> {
    let Material { record, plan, log, .. } = *material;
    let run = finished(record, plan)?;
    if !log::is_origin(log.origin) {
        return Err(BuildError::Origin { origin: log.origin.to_owned() });
    }
    let steps: Vec<Step> = plan.steps.iter().map(Step::from).collect();
    let outcomes = sorted(material.steps, |step| (step.seq, step.undo));
    let receipts = receipts(material.receipts)?;
    let compensations = match record.status {
        RunStatus::Succeeded => Vec::new(),
        _ => view::compensation_log(plan, material.steps).into_iter().map(Into::into).collect(),
    };
    Ok(Bundle {
        format: FORMAT.to_owned(),
        run,
        chain: entries(material.entries)?,
        approvals: sorted(material.approvals, |approval| approval.id.clone()),
        compensations,
        costs: Costs::of(&steps, &outcomes, &receipts),
        log: Log::signed(&log, key),
        steps,
        outcomes,
        receipts,
    })
}

fn finished(record: &RunRecord, plan: &Plan) -> Result<Run, BuildError> {
    let not_over = || BuildError::NotOver { run: record.key.clone(), status: record.status };
    let completed_at = record.completed_at.filter(|_| record.status.is_terminal()).ok_or_else(not_over)?;
    let given = plan.hash();
    if given != record.plan {
        return Err(BuildError::OtherPlan { given, admitted: record.plan });
    }
    Ok(Run {
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

fn entries(stored: &[StoredEvent]) -> Result<Vec<Entry>, BuildError> {
    let entry = |(n, stored): (usize, &StoredEvent)| {
        let event = json::parse(&stored.canonical).map_err(|why| BuildError::Entry { n, why })?;
        Ok(Entry { event, hash: stored.hash })
    };
    stored.iter().enumerate().map(entry).collect()
}

/// Receipts whose every value has a fingerprint: a number that is rounded on the way would share its
/// fingerprint with another.
fn receipts<T: for<'a> From<&'a Receipt>>(receipts: &[Receipt]) -> Result<Vec<T>, BuildError> {
    for receipt in receipts {
        let checked = values(receipt).into_iter().try_for_each(json::check);
        checked.map_err(|source| BuildError::Receipt { key: receipt.key.clone(), source })?;
    }
    Ok(sorted(receipts, |receipt| receipt.key.clone()))
}

fn values(receipt: &Receipt) -> Vec<&Value> {
    let (response, inverse) = match &receipt.state {
        ReceiptState::Done { response, inverse, .. } => (Some(response), inverse.as_ref()),
        ReceiptState::Intent | ReceiptState::Failed { .. } => (None, None),
    };
    receipt.found.iter().chain(response).chain(inverse).collect()
}

/// `records` in their one order, as the bundle describes them.
fn sorted<R, T: for<'a> From<&'a R>, K: Ord>(records: &[R], by: impl Fn(&R) -> K) -> Vec<T> {
    let mut records: Vec<&R> = records.iter().collect();
    records.sort_by_key(|record| by(record));
    records.into_iter().map(T::from).collect()
}
