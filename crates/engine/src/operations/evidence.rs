//! Builds the evidence of an ended run: signs it, stores it, and records its digest.
//!
//! All inputs are final once the run has ended, and the first attempt to append to the log fixes the run's position.
//! So every attempt, by any process, builds the same bytes.

use domain::chain::StoredEvent;
use domain::{Approval, ApprovalId, Evidence, IdempotencyKey, Receipt, RunId, RunKey, RunRecord};
use evidence::{BundleInput, LogEntry, ReceiptOwner};
use store::{BlobKind, Store, Write};

use crate::core::{EvidenceSigner, Loaded};
use crate::error::EngineError;
use crate::operations::OperationsService;
use crate::operations::inspect::EVENTS_MAX;
use crate::tenant_handle::TenantHandle;

impl<S: Store> TenantHandle<S> {
    /// The recorded evidence of `run`, and its bytes.
    pub async fn evidence(&self, run: &RunId) -> Result<(Evidence, Vec<u8>), EngineError> {
        self.found(OperationsService::new(&self.core).evidence(&self.key(run)).await).await
    }

    /// Every receipt that the run's chain refers to so far.
    pub async fn receipts(&self, run: &RunId) -> Result<Vec<Receipt>, EngineError> {
        let run = self.key(run);
        let loaded = self.found(self.core.load(&run).await).await?;
        let entries = self.core.retry_busy(|store| store.events(&run, 0, EVENTS_MAX)).await?;
        OperationsService::new(&self.core).receipts_of(&loaded, &entries).await
    }
}

impl<S: Store> OperationsService<'_, S> {
    /// Builds the evidence of an ended `run`, or returns what was built before.
    pub async fn build_evidence(self, run: &RunKey) -> Result<Evidence, EngineError> {
        let (record, evidence) = self.load_with_evidence(run).await?;
        if let Some(evidence) = evidence {
            return Ok(evidence);
        }
        let loaded = self.core.with_plan(record).await?;
        if !loaded.record.status.is_terminal() {
            return Err(EngineError::NotFinished { run: run.clone(), status: loaded.record.status });
        }
        let (bytes, index) = self.bundle_of(&loaded).await?;
        let bundle = self
            .core
            .retry_busy(|store| store.put_blob(BlobKind::Evidence, &run.tenant, bytes.clone()))
            .await?;
        let sealed = Evidence { bundle, index, sealed_at: self.core.now() };
        if self.core.retry_busy(|store| store.put_evidence(run, sealed.clone())).await? == Write::Committed {
            return Ok(sealed);
        }
        // The process that was first recorded the same digest.
        let evidence = self.core.retry_busy(|store| store.evidence(run)).await?;
        evidence.ok_or_else(|| EngineError::NoEvidence { run: run.clone() })
    }

    /// The recorded evidence of `run`, and its bytes.
    pub async fn evidence(self, run: &RunKey) -> Result<(Evidence, Vec<u8>), EngineError> {
        let missing = || EngineError::NoEvidence { run: run.clone() };
        let evidence = self.load_with_evidence(run).await?.1.ok_or_else(missing)?;
        let bytes = self
            .core
            .retry_busy(|store| store.blob(BlobKind::Evidence, &run.tenant, &evidence.bundle))
            .await?
            .ok_or_else(missing)?;
        Ok((evidence, bytes))
    }

    async fn load_with_evidence(self, run: &RunKey) -> Result<(RunRecord, Option<Evidence>), EngineError> {
        let found = self.core.retry_busy(|store| store.load_with_evidence(run)).await?;
        found.ok_or_else(|| EngineError::NoRun { run: run.clone() })
    }

    async fn bundle_of(self, loaded: &Loaded) -> Result<(Vec<u8>, u64), EngineError> {
        let run = &loaded.record.key;
        let Some(EvidenceSigner { key, origin }) = &self.core.evidence_signer else {
            return Err(EngineError::NoSigningKey);
        };
        let (entries, steps) = self.core.retry_busy(|store| store.history(run, EVENTS_MAX)).await?;
        let approvals = self.approvals_of(loaded).await?;
        let receipts = self.receipts_of(loaded, &entries).await?;
        let leaf = evidence::leaf(&loaded.record);
        let position = self.core.retry_busy(|store| store.append_log(run, leaf)).await?;
        let index = position.index;
        let origin = if S::LOG_FOR_EACH_TENANT { format!("{origin}/{}", run.tenant) } else { origin.clone() };
        let material = BundleInput {
            record: &loaded.record,
            plan: loaded.plan.plan(),
            entries: &entries,
            steps: &steps,
            receipts: &receipts,
            approvals: &approvals,
            log: LogEntry { origin: &origin, position: &position },
        };
        let bytes = evidence::build(&material, key)
            .map_err(|source| EngineError::BadEvidence { run: run.clone(), source: Box::new(source) })?;
        Ok((bytes, index))
    }

    /// The approval requests of a run in order; its record counts them.
    async fn approvals_of(self, loaded: &Loaded) -> Result<Vec<Approval>, EngineError> {
        let run = &loaded.record.key;
        let mut approvals = Vec::new();
        for number in 0..loaded.record.approvals {
            let id = ApprovalId::derive(run, number);
            approvals.extend(self.core.retry_busy(|store| store.approval(&run.tenant, &id)).await?);
        }
        Ok(approvals)
    }

    async fn receipts_of(
        self,
        loaded: &Loaded,
        entries: &[StoredEvent],
    ) -> Result<Vec<Receipt>, EngineError> {
        let run = &loaded.record.key;
        let bad = |source| EngineError::BadEvidence { run: run.clone(), source: Box::new(source) };
        let effects = evidence::effects_of(entries).map_err(bad)?;
        let mut receipts = Vec::with_capacity(effects.len());
        for (key, whose) in &effects {
            receipts.extend(self.receipt_of(run, key, *whose).await?);
        }
        Ok(receipts)
    }

    /// A run's receipt stays under its key until another run's receipt displaces it.
    async fn receipt_of(
        self,
        run: &RunKey,
        key: &IdempotencyKey,
        whose: ReceiptOwner,
    ) -> Result<Option<Receipt>, EngineError> {
        let stands = self.core.retry_busy(|store| store.receipt(&run.tenant, key)).await?;
        match (whose, stands) {
            (ReceiptOwner::ThisRun, Some(stands)) if stands.run != run.run => {
                Ok(self.core.retry_busy(|store| store.displaced(run, key)).await?)
            }
            (ReceiptOwner::ThisRun | ReceiptOwner::AnyRun, stands) => Ok(stands),
        }
    }
}
