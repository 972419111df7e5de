//! Builds the evidence of an ended run: signs it, stores it, and records its digest.
//!
//! All inputs are final once the run has ended, and the first attempt to append to the log fixes the run's position.
//! So every attempt, by any process, builds the same bytes.
//!
//! A run is signed once. If the log has another leaf of the run, or the store has a bundle with other content, then the
//! records were altered since, and nothing is signed.

use domain::chain::StoredEvent;
use domain::{Approval, ApprovalId, Evidence, IdempotencyKey, Receipt, RunId, RunKey, RunRecord};
use evidence::{BundleComparison, BundleInput, LogEntry, ReceiptOwner, StoredRun, TrustedKeys};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use store::{LogPosition, Store, StoreError, Write};

use crate::admission::AdmissionService;
use crate::core::{EvidenceSigner, LoadedRun, journal};
use crate::error::{EngineError, error_chain};
use crate::operations::OperationsService;
use crate::operations::inspect::{EVENTS_MAX, RunView};
use crate::tenant_handle::TenantHandle;

/// How many receipts are read at a time to compare a run with its bundle. Most runs have fewer.
const CONCURRENT_RECEIPTS: usize = 16;

impl<S: Store> TenantHandle<S> {
    /// The recorded evidence of `run`, and its bytes.
    pub async fn evidence(&self, run: &RunId) -> Result<(Evidence, Vec<u8>), EngineError> {
        self.explain_missing_run(OperationsService::new(&self.core).evidence(&self.key(run)).await).await
    }

    /// Compares an ended run with its signed bundle. `None` if the run has none, or if the bundle cannot be read.
    pub async fn compare_with_bundle(
        &self,
        view: &RunView,
        keys: Option<&TrustedKeys>,
    ) -> Option<BundleComparison> {
        let compared = OperationsService::new(&self.core).compare_with_bundle(view, keys).await;
        compared.unwrap_or_else(|error| {
            let (run, error) = (&view.record.key, error_chain(&error));
            tracing::warn!(event = "bundle_not_compared", %run, error, "run not compared with its bundle");
            None
        })
    }

    /// Every receipt that the run's chain refers to so far.
    pub async fn receipts(&self, run: &RunId) -> Result<Vec<Receipt>, EngineError> {
        let run = self.key(run);
        let loaded = self.explain_missing_run(self.core.load(&run).await).await?;
        let entries = self.core.retry_busy(|store| store.events(&run, 0, EVENTS_MAX)).await?;
        OperationsService::new(&self.core).receipts_of(&loaded, &entries).await
    }
}

impl<S: Store> OperationsService<'_, S> {
    /// Builds the evidence of an ended `run`, or returns what was built before.
    pub async fn build_evidence(self, run: &RunKey) -> Result<Evidence, EngineError> {
        let built = self.build_or_find(run).await;
        if let Err(error) = &built
            && let Some(reason) = refusal_reason(error)
        {
            journal::log_evidence_refused(run, reason, &error_chain(error));
        }
        built
    }

    async fn build_or_find(self, run: &RunKey) -> Result<Evidence, EngineError> {
        let (record, evidence) = self.load_with_evidence(run).await?;
        if let Some(evidence) = evidence {
            return Ok(evidence);
        }
        let loaded = self.core.with_plan(record).await?;
        if !loaded.record.status.is_terminal() {
            return Err(EngineError::NotFinished { run: run.clone(), status: loaded.record.status });
        }
        // First, because evidence may have to wait for a signing key or a storage service.
        self.release_key(&loaded).await?;
        let (bytes, index) = self.bundle_of(&loaded).await?;
        let evidence = self.put_bundle(&loaded.record, bytes, index).await?;
        if self.core.retry_busy(|store| store.put_evidence(run, evidence.clone())).await? == Write::Committed
        {
            return Ok(evidence);
        }
        // The process that was first recorded the same digest.
        let evidence = self.core.retry_busy(|store| store.evidence(run)).await?;
        evidence.ok_or_else(|| EngineError::NoEvidence { run: run.clone() })
    }

    /// Wakes the next request that waits for the concurrency key of an ended `run`. Evidence does this too, but may have
    /// to wait.
    pub async fn release_concurrency_key(self, run: &RunKey) -> Result<(), EngineError> {
        let loaded = self.core.load(run).await?;
        if !loaded.record.status.is_terminal() {
            return Ok(());
        }
        self.release_key(&loaded).await
    }

    /// Wakes the next entry that waits for the run's concurrency key. Without the input the key is not known: the entries
    /// that wait for it are processed again by the sweep.
    async fn release_key(self, loaded: &LoadedRun) -> Result<(), EngineError> {
        let (run, plan) = (&loaded.record.key, loaded.plan.plan());
        if plan.concurrency.is_none() {
            return Ok(());
        }
        let Some(input) = self.core.retry_busy(|store| store.input(run)).await? else { return Ok(()) };
        let input = match self.core.payload(&run.tenant, &input).await {
            Err(EngineError::NoPayload { .. }) => return Ok(()),
            input => input?,
        };
        AdmissionService::new(self.core).wake_next(run, plan, &input).await
    }

    /// The recorded evidence of `run`, and its bytes.
    pub async fn evidence(self, run: &RunKey) -> Result<(Evidence, Vec<u8>), EngineError> {
        let missing = || EngineError::NoEvidence { run: run.clone() };
        let evidence = self.load_with_evidence(run).await?.1.ok_or_else(missing)?;
        let bytes = self.core.retry_busy(|store| store.bundle(&run.tenant, &evidence.name)).await?;
        let bytes = bytes.ok_or_else(missing)?;
        if store::blob_ref(&bytes).sha256 != evidence.bundle.sha256 {
            return Err(EngineError::AlteredRun {
                run: run.clone(),
                what: "the recorded digest of its bundle",
            });
        }
        Ok((evidence, bytes))
    }

    pub async fn compare_with_bundle(
        self,
        view: &RunView,
        keys: Option<&TrustedKeys>,
    ) -> Result<Option<BundleComparison>, EngineError> {
        let record = &view.record;
        if !record.status.is_terminal() {
            return Ok(None);
        }
        let mut bundle = self.signed_bundle(&record.key).await?;
        if bundle.is_none() {
            if self.core.retry_busy(|store| store.evidence(&record.key)).await?.is_none() {
                return Ok(None);
            }
            // A worker may have stored the bundle and its record after the first read.
            bundle = self.signed_bundle(&record.key).await?;
        }
        let Some(bytes) = bundle else {
            return Ok(Some(BundleComparison::Altered { what: "the recorded evidence" }));
        };
        let receipts = evidence::final_receipts(&bytes).into_iter();
        let receipts = receipts.map(|(key, owner)| self.receipt_by(&record.key, key, owner));
        let receipts: Vec<Option<Receipt>> =
            stream::iter(receipts).buffered(CONCURRENT_RECEIPTS).try_collect().await?;
        let receipts: Vec<Receipt> = receipts.into_iter().flatten().collect();
        let (steps, approvals) = (&view.steps, &view.approvals);
        let stored = StoredRun { record, plan: view.plan(), steps, approvals, receipts: &receipts };
        Ok(Some(evidence::compare(&bytes, keys, &stored)))
    }

    /// The receipt that the run `owner` of the same tenant wrote under `key`, although another run's may have displaced it.
    async fn receipt_by(
        self,
        run: &RunKey,
        key: IdempotencyKey,
        owner: RunId,
    ) -> Result<Option<Receipt>, EngineError> {
        let owner = RunKey { tenant: run.tenant.clone(), run: owner };
        self.receipt_of(&owner, &key, ReceiptOwner::ThisRun).await
    }

    /// The bundle of `run`. It is found even if the ledger has no record of it.
    async fn signed_bundle(self, run: &RunKey) -> Result<Option<Vec<u8>>, EngineError> {
        let name = self.core.store.bundle_name(&run.run);
        if let Some(bytes) = self.core.retry_busy(|store| store.bundle(&run.tenant, &name)).await? {
            return Ok(Some(bytes));
        }
        // A restored store records bundles under the names of the original.
        match self.core.retry_busy(|store| store.evidence(run)).await? {
            Some(recorded) if recorded.name != name => {
                Ok(self.core.retry_busy(|store| store.bundle(&run.tenant, &recorded.name)).await?)
            }
            _ => Ok(None),
        }
    }

    /// Stores the bundle, or returns the existing bundle if this key signed it and its log leaf is the same. A bundle that
    /// another key signed may be forged. If the key was replaced before the bundle was recorded, a worker with the
    /// previous key records it.
    async fn put_bundle(
        self,
        record: &RunRecord,
        bytes: Vec<u8>,
        index: u64,
    ) -> Result<Evidence, EngineError> {
        let RunKey { tenant, run } = &record.key;
        let name = self.core.store.bundle_name(run);
        let stored = self.core.retry_busy(|store| store.put_bundle(tenant, &name, bytes.clone())).await?;
        let recorded_at = self.core.now();
        let Some(stored) = stored.filter(|stored| *stored != bytes) else {
            return Ok(Evidence { bundle: store::blob_ref(&bytes), name, index, recorded_at });
        };
        let key = self.core.evidence_signer.as_ref().map(|signer| signer.key.public());
        let is_ours = |stored: &[u8]| key.as_ref().is_some_and(|key| evidence::is_signed_by(stored, key));
        match evidence::claimed(&stored) {
            Ok(claim)
                if is_ours(&stored) && claim.run == record.key && claim.leaf == evidence::leaf(record) =>
            {
                Ok(Evidence { bundle: store::blob_ref(&stored), name, index: claim.index, recorded_at })
            }
            _ => Err(EngineError::AlteredRun { run: record.key.clone(), what: "its signed bundle" }),
        }
    }

    async fn load_with_evidence(self, run: &RunKey) -> Result<(RunRecord, Option<Evidence>), EngineError> {
        let found = self.core.retry_busy(|store| store.load_with_evidence(run)).await?;
        found.ok_or_else(|| EngineError::NoRun { run: run.clone() })
    }

    async fn bundle_of(self, loaded: &LoadedRun) -> Result<(Vec<u8>, u64), EngineError> {
        let run = &loaded.record.key;
        let Some(EvidenceSigner { key, origin }) = &self.core.evidence_signer else {
            return Err(EngineError::NoSigningKey);
        };
        let (entries, steps) = self.core.retry_busy(|store| store.history(run, EVENTS_MAX)).await?;
        let approvals = self.approvals_of(&loaded.record).await?;
        let receipts = self.receipts_of(loaded, &entries).await?;
        let leaf = evidence::leaf(&loaded.record);
        let LogPosition { log, position } = self.core.retry_busy(|store| store.append_log(run, leaf)).await?;
        if !position.holds(&leaf) {
            return Err(EngineError::AlteredRun {
                run: run.clone(),
                what: "its entry in the transparency log",
            });
        }
        let index = position.index;
        let origin = format!("{origin}/{log}");
        let input = BundleInput {
            record: &loaded.record,
            plan: loaded.plan.plan(),
            entries: &entries,
            steps: &steps,
            receipts: &receipts,
            approvals: &approvals,
            log: LogEntry { origin: &origin, position: &position },
        };
        let bytes = evidence::build(&input, key)
            .map_err(|source| EngineError::BadEvidence { run: run.clone(), source: Box::new(source) })?;
        Ok((bytes, index))
    }

    /// The approval requests of a run in order; its record counts them.
    pub(super) async fn approvals_of(self, record: &RunRecord) -> Result<Vec<Approval>, EngineError> {
        let run = &record.key;
        let mut approvals = Vec::new();
        for number in 0..record.approvals {
            let id = ApprovalId::derive(run, number);
            approvals.extend(self.core.retry_busy(|store| store.approval(&run.tenant, &id)).await?);
        }
        Ok(approvals)
    }

    async fn receipts_of(
        self,
        loaded: &LoadedRun,
        entries: &[StoredEvent],
    ) -> Result<Vec<Receipt>, EngineError> {
        let run = &loaded.record.key;
        let bad = |source| EngineError::BadEvidence { run: run.clone(), source: Box::new(source) };
        let effects = evidence::effects_of(entries).map_err(bad)?;
        let mut receipts = Vec::with_capacity(effects.len());
        for (key, owner) in &effects {
            receipts.extend(self.receipt_of(run, key, *owner).await?);
        }
        Ok(receipts)
    }

    /// A run's receipt stays under its key until another run's receipt displaces it.
    async fn receipt_of(
        self,
        run: &RunKey,
        key: &IdempotencyKey,
        owner: ReceiptOwner,
    ) -> Result<Option<Receipt>, EngineError> {
        let current = self.core.retry_busy(|store| store.receipt(&run.tenant, key)).await?;
        match (owner, current) {
            (ReceiptOwner::ThisRun, Some(current)) if current.run != run.run => {
                Ok(self.core.retry_busy(|store| store.displaced(run, key)).await?)
            }
            (ReceiptOwner::ThisRun | ReceiptOwner::AnyRun, current) => Ok(current),
        }
    }
}

/// Why the stored data of a run was not signed. `None` if the error has another cause.
fn refusal_reason(error: &EngineError) -> Option<&'static str> {
    match error {
        EngineError::AlteredRun { .. } => Some("altered"),
        EngineError::BadEvidence { .. } => Some("inconsistent"),
        EngineError::Store(StoreError::Broken { .. }) => Some("store"),
        _ => None,
    }
}
