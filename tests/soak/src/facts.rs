//! What the store says after the soak, one summary for each run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{
    ApprovalId, Digest, Event, EventBody, IdempotencyKey, RunId, RunKey, RunRecord, RunStatus, StepId,
    TenantId, verdict::Ruling,
};
use evidence::bundle::ReceiptSummary;
use evidence::{PublicKey, Verified};
use futures_util::{StreamExt as _, stream};
use store::{RunQuery, Store, StoreError};
use tokio::time::sleep;

use crate::external_systems::ExternalCounts;

/// The number of runs that are read at the same time.
const CONCURRENCY: usize = 16;

const PAGE: u32 = 100;

/// A local AWS does not answer every request of a busy machine.
const READS_MAX: u32 = 20;
const READ_PAUSE: Duration = Duration::from_secs(1);

/// More events than a run of the soak has.
const EVENTS_MAX: u32 = 10_000;

/// Everything that the oracle compares.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) journal: Journal,
    pub(crate) runs: Vec<RunFacts>,
    pub(crate) external: ExternalCounts,
}

/// What the soak itself did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    /// The run that the API returned for each accepted request.
    pub(crate) started: BTreeMap<String, RunId>,
    /// The users who voted for each approval, whether or not the reply arrived.
    pub(crate) approved_by: BTreeMap<ApprovalId, BTreeSet<String>>,
    /// How often an operator resumed each run.
    pub(crate) resumed: BTreeMap<RunId, u32>,
    /// Faults that were noticed during the soak.
    pub(crate) violations: Vec<(Option<RunId>, String)>,
}

/// A run in the store.
#[derive(Debug, Clone)]
pub(crate) struct RunFacts {
    pub(crate) run: RunId,
    pub(crate) status: RunStatus,
    /// The kind of the trigger: `api` or `undo`.
    pub(crate) trigger: String,
    pub(crate) requester: Option<String>,
    /// The receipts in the ledger under the keys that the chain names.
    pub(crate) receipts: Vec<ReceiptSummary>,
    /// The evidence, or why there is none.
    pub(crate) bundle: Result<BundleFacts, String>,
}

/// A verified evidence bundle.
#[derive(Debug, Clone)]
pub(crate) struct BundleFacts {
    pub(crate) status: RunStatus,
    pub(crate) receipts: Vec<ReceiptSummary>,
    /// The users who approved each request.
    pub(crate) approvals: BTreeMap<ApprovalId, BTreeSet<String>>,
    pub(crate) intents: Vec<IntentFacts>,
    /// The effects whose outcome was unknown at some time.
    pub(crate) unknown: BTreeSet<IdempotencyKey>,
    pub(crate) log: LogFacts,
}

/// An attempt at an effect, and what allowed it.
#[derive(Debug, Clone)]
pub(crate) struct IntentFacts {
    pub(crate) step: StepId,
    pub(crate) rollback: bool,
    pub(crate) denied: bool,
    /// The number of approvers that the verdict requires.
    pub(crate) people: usize,
    pub(crate) approval: Option<ApprovalId>,
}

/// The position of a run in the transparency log.
#[derive(Debug, Clone)]
pub(crate) struct LogFacts {
    pub(crate) origin: String,
    pub(crate) index: u64,
    pub(crate) size: u64,
    pub(crate) root: Digest,
    pub(crate) leaf: Digest,
}

/// All runs of the tenant, without duplicates.
pub(crate) async fn all_runs<S: Store>(store: &S, tenant: &TenantId) -> Result<Vec<RunRecord>, StoreError> {
    let (mut runs, mut before) = (BTreeMap::new(), None);
    loop {
        let page = store.runs(tenant, RunQuery { before, ..RunQuery::newest(PAGE) }).await?;
        runs.extend(page.runs.into_iter().map(|record| (record.key.run.clone(), record)));
        before = page.next;
        if before.is_none() {
            return Ok(runs.into_values().collect());
        }
    }
}

/// Reads every run with its receipts and its evidence, and verifies the evidence.
pub(crate) async fn read_runs<S: Store>(
    store: &S,
    tenant: &TenantId,
    key: &PublicKey,
) -> Result<Vec<RunFacts>, StoreError> {
    let records = all_runs(store, tenant).await?;
    let facts = records.into_iter().map(|record| read_with_retries(store, record, key));
    stream::iter(facts).buffer_unordered(CONCURRENCY).collect::<Vec<_>>().await.into_iter().collect()
}

/// Reads a run again if the store does not respond.
async fn read_with_retries<S: Store>(
    store: &S,
    listed: RunRecord,
    key: &PublicKey,
) -> Result<RunFacts, StoreError> {
    for _ in 1..READS_MAX {
        if let Ok(facts) = read_run(store, listed.clone(), key).await {
            return Ok(facts);
        }
        sleep(READ_PAUSE).await;
    }
    read_run(store, listed, key).await
}

async fn read_run<S: Store>(store: &S, listed: RunRecord, key: &PublicKey) -> Result<RunFacts, StoreError> {
    let run = listed.key;
    // An index may be late, so the record is read again.
    let Some((record, evidence)) = store.load_with_evidence(&run).await? else {
        return Err(StoreError::broken("read a listed run", "the run does not exist"));
    };
    let (events, _) = store.history(&run, EVENTS_MAX).await?;
    let events: Vec<Event> =
        events.iter().filter_map(|event| serde_json::from_slice(&event.canonical).ok()).collect();
    let bundle = match evidence {
        None => Err("no evidence is recorded".to_owned()),
        Some(evidence) => match store.bundle(&run.tenant, &evidence.name).await? {
            None => Err("the recorded bundle does not exist".to_owned()),
            Some(bytes) => read_bundle(&bytes, &record, key),
        },
    };
    Ok(RunFacts {
        receipts: read_receipts(store, &run, &events).await?,
        status: record.status,
        trigger: record.trigger.kind,
        requester: record.trigger.requester.map(|person| person.to_string()),
        run: run.run,
        bundle,
    })
}

/// The receipts in the ledger, under the keys of all attempts.
async fn read_receipts<S: Store>(
    store: &S,
    run: &RunKey,
    events: &[Event],
) -> Result<Vec<ReceiptSummary>, StoreError> {
    let keys: BTreeSet<&IdempotencyKey> = events.iter().filter_map(intent_key).collect();
    let mut receipts = Vec::new();
    for key in keys {
        let stored = store.receipt(&run.tenant, key).await?.filter(|receipt| receipt.run == run.run);
        let stored = match stored {
            None => store.displaced(run, key).await?,
            some => some,
        };
        receipts.extend(stored.as_ref().map(ReceiptSummary::from));
    }
    Ok(receipts)
}

fn intent_key(event: &Event) -> Option<&IdempotencyKey> {
    match &event.body {
        EventBody::EffectIntended { receipt, .. } => Some(&receipt.key),
        _ => None,
    }
}

fn read_bundle(bytes: &[u8], record: &RunRecord, key: &PublicKey) -> Result<BundleFacts, String> {
    let verified =
        evidence::verify(bytes, key).map_err(|error| format!("the bundle does not verify: {error}"))?;
    let bundle = verified.bundle();
    if (&bundle.run.run, bundle.run.head) != (&record.key.run, record.head) {
        return Err("the bundle has another chain than the store".to_owned());
    }
    let approvers = |votes: &[domain::Vote]| {
        votes.iter().filter(|vote| vote.approve).map(|vote| vote.person.to_string()).collect()
    };
    Ok(BundleFacts {
        status: bundle.run.status,
        receipts: bundle.receipts.clone(),
        approvals: bundle.approvals.iter().map(|one| (one.id.clone(), approvers(&one.votes))).collect(),
        intents: intents(&verified),
        unknown: unknown_outcomes(&verified),
        log: LogFacts {
            origin: bundle.log.origin.clone(),
            index: bundle.log.index,
            size: bundle.log.size,
            root: bundle.log.root,
            leaf: evidence::leaf(record),
        },
    })
}

fn intents(verified: &Verified) -> Vec<IntentFacts> {
    let intents = verified.events().iter().filter_map(|event| {
        let EventBody::EffectIntended { verdict, approval, .. } = &event.body else { return None };
        let step = verified.bundle().steps.get(event.seq.index())?.id.clone();
        let people = match &verdict.ruling {
            Ruling::NeedsApproval(requirement) => requirement.people.count(),
            Ruling::Allow | Ruling::Deny => 0,
        };
        Some(IntentFacts {
            step,
            rollback: event.rollback,
            denied: verdict.ruling == Ruling::Deny,
            people,
            approval: approval.clone(),
        })
    });
    intents.collect()
}

fn unknown_outcomes(verified: &Verified) -> BTreeSet<IdempotencyKey> {
    let unknown = verified.events().iter().filter_map(|event| match &event.body {
        EventBody::OutcomeUnknown { receipt, .. } => Some(receipt.key.clone()),
        _ => None,
    });
    unknown.collect()
}
