//! Seal: the evidence of a finished run is put together, signed, kept, and its digest recorded.
//!
//! Everything that goes in is settled once the run is over, and the run's place in the log is settled by the
//! first attempt to append it. So however often this is tried, and by whomever, the bytes are the same.

use std::sync::Arc;

use domain::chain::StoredEvent;
use domain::{
    Approval, ApprovalId, Evidence, IdempotencyKey, Job, Millis, Outgoing, QueueName, Receipt, RunKey,
    RunRecord,
};
use evidence::{LogEntry, Material, SigningKey, Whose};
use store::{BlobKind, Store, Write};

use crate::error::EngineError;
use crate::inspect::EVENTS_MAX;
use crate::{Engine, Loaded};

/// What evidence is signed with, and the name of the log it goes into.
#[derive(Clone)]
pub struct Sealing {
    /// The key.
    pub key: Arc<SigningKey>,
    /// The name of the log.
    pub origin: String,
}

impl<S: Store> Engine<S> {
    /// Puts together the evidence of `run`, if it is over, or finds what was put together before.
    pub async fn seal(&self, run: &RunKey) -> Result<Evidence, EngineError> {
        let (record, evidence) = self.filed(run).await?;
        if let Some(evidence) = evidence {
            return Ok(evidence);
        }
        let loaded = self.with_plan(record).await?;
        if !loaded.record.status.is_terminal() {
            return Err(EngineError::NotOver { run: run.clone(), status: loaded.record.status });
        }
        let (bytes, index) = self.bundle_of(&loaded).await?;
        let bundle =
            self.retry_busy(|| self.store.put_blob(BlobKind::Evidence, &run.tenant, bytes.clone())).await?;
        let sealed = Evidence { bundle, index, sealed_at: self.now() };
        if self.retry_busy(|| self.store.put_evidence(run, sealed.clone())).await? == Write::Committed {
            return Ok(sealed);
        }
        // Whoever was first has recorded the same digest.
        let evidence = self.retry_busy(|| self.store.evidence(run)).await?;
        evidence.ok_or_else(|| EngineError::NoEvidence { run: run.clone() })
    }

    /// Asks for the evidence of a run that is over, unless it is there. Whoever gets the message of such a run may
    /// hold that of somebody who ended it and died before asking.
    pub(crate) async fn ask_for_evidence(&self, run: &RunKey) -> Result<(), EngineError> {
        if self.retry_busy(|| self.store.evidence(run)).await?.is_some() {
            return Ok(());
        }
        let message =
            Outgoing { run: run.clone(), queue: QueueName::Steps, job: Job::BuildEvidence, delay: Millis(0) };
        Ok(self.retry_busy(|| self.store.send(&message)).await?)
    }

    /// The evidence of `run`, as it was recorded.
    pub async fn evidence(&self, run: &RunKey) -> Result<(Evidence, Vec<u8>), EngineError> {
        let missing = || EngineError::NoEvidence { run: run.clone() };
        let evidence = self.filed(run).await?.1.ok_or_else(missing)?;
        let bytes = self
            .retry_busy(|| self.store.blob(BlobKind::Evidence, &run.tenant, &evidence.bundle))
            .await?
            .ok_or_else(missing)?;
        Ok((evidence, bytes))
    }

    async fn filed(&self, run: &RunKey) -> Result<(RunRecord, Option<Evidence>), EngineError> {
        let filed = self.retry_busy(|| self.store.filed(run)).await?;
        filed.ok_or_else(|| EngineError::NoRun { run: run.clone() })
    }

    /// Every receipt that the chain of `run` speaks of so far.
    pub async fn receipts(&self, run: &RunKey) -> Result<Vec<Receipt>, EngineError> {
        let loaded = self.load(run).await?;
        let entries = self.retry_busy(|| self.store.events(run, 0, EVENTS_MAX)).await?;
        self.receipts_of(&loaded, &entries).await
    }

    async fn bundle_of(&self, loaded: &Loaded) -> Result<(Vec<u8>, u64), EngineError> {
        let run = &loaded.record.key;
        let Some(Sealing { key, origin }) = &self.sealing else { return Err(EngineError::NoKey) };
        let (entries, steps) = self.retry_busy(|| self.store.history(run, EVENTS_MAX)).await?;
        let approvals = self.approvals_of(loaded).await?;
        let receipts = self.receipts_of(loaded, &entries).await?;
        let leaf = evidence::leaf(&loaded.record);
        let position = self.retry_busy(|| self.store.append_log(run, leaf)).await?;
        let index = position.index;
        let origin = if S::LOG_FOR_EACH_TENANT { format!("{origin}/{}", run.tenant) } else { origin.clone() };
        let material = Material {
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

    /// Every request for approval of a run, in the order they were made: its record says how many there were.
    async fn approvals_of(&self, loaded: &Loaded) -> Result<Vec<Approval>, EngineError> {
        let run = &loaded.record.key;
        let mut approvals = Vec::new();
        for number in 0..loaded.record.approvals {
            let id = ApprovalId::derive(run, number);
            approvals.extend(self.retry_busy(|| self.store.approval(&run.tenant, &id)).await?);
        }
        Ok(approvals)
    }

    /// Every receipt that the chain speaks of.
    async fn receipts_of(
        &self,
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

    /// What a run left under a key stands there, until another run's receipt takes its place.
    async fn receipt_of(
        &self,
        run: &RunKey,
        key: &IdempotencyKey,
        whose: Whose,
    ) -> Result<Option<Receipt>, EngineError> {
        let stands = self.retry_busy(|| self.store.receipt(&run.tenant, key)).await?;
        match (whose, stands) {
            (Whose::Own, Some(stands)) if stands.run != run.run => {
                Ok(self.retry_busy(|| self.store.displaced(run, key)).await?)
            }
            (Whose::Own | Whose::Anybodys, stands) => Ok(stands),
        }
    }
}
