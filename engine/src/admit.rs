//! Admit: a trigger becomes a run.

use std::sync::Arc;

use domain::command::{Admit, admit};
use domain::payload::INLINE_BYTES_MAX;
use domain::{
    Cause, IdempotencyKey, Initiator, Payload, PersonId, Plan, RecordName, Refusal, RunId, RunKey, TenantId,
    WorkspaceId, json, payload::Fingerprint,
};
use serde_json::Value;
use store::{Admission, Shelf, Store, Write};
use workflow::CompiledPlan;

use crate::Engine;
use crate::error::EngineError;

/// A wish to start a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StartRun {
    /// For whom.
    pub tenant: TenantId,
    /// For which part of them.
    pub workspace: WorkspaceId,
    /// What it does.
    pub plan: Plan,
    /// What kind of thing asks.
    pub trigger_kind: String,
    /// Names the request: the same key is the same run for ever.
    pub key: IdempotencyKey,
    /// The record outside that it is about, if one is named.
    pub record: Option<RecordName>,
    /// What comes with it.
    pub input: Value,
    /// Who or what asks.
    pub by: Initiator,
}

/// A run that was started, now or before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Which run.
    pub run: RunKey,
    /// Whether this request started it.
    pub new: bool,
}

impl<S: Store> Engine<S> {
    /// Starts a run, or finds the one that the same request started before.
    pub async fn start(&self, wish: StartRun) -> Result<Started, EngineError> {
        json::check(&wish.input)
            .map_err(|source| EngineError::BadInput { what: "the run's input", source })?;
        if wish.by.cause == Cause::User && PersonId::new(&wish.by.id).is_err() {
            return Err(EngineError::NotAPerson { id: wish.by.id });
        }
        let (input, fingerprint) = self.keep(&wish.tenant, &wish.input).await?;
        self.keep_plan(&wish.tenant, &wish.plan).await?;
        let run = RunKey { tenant: wish.tenant.clone(), run: RunId::derive(&wish.tenant, &wish.key) };
        let request = Admit {
            tenant: wish.tenant,
            workspace: wish.workspace,
            trigger_kind: wish.trigger_kind,
            key: wish.key,
            record: wish.record,
            input: fingerprint,
        };
        let decision = admit(request, &wish.plan, self.stamp(wish.by));
        let op = decision.record.op.clone();
        let admission = Admission { decision, input };
        let write = self.patiently(|| self.store.admit(admission.clone())).await?;
        match write {
            Write::Committed => Ok(Started { run, new: true }),
            Write::Superseded => self.started_before(run, &op, fingerprint).await,
        }
    }

    async fn started_before(
        &self,
        run: RunKey,
        op: &domain::OpId,
        input: Fingerprint,
    ) -> Result<Started, EngineError> {
        let first = self.load(&run).await?.record;
        if first.trigger.input != input.sha256 {
            return Err(Refusal::KeyConflict { run }.into());
        }
        // Our own write whose reply was lost; if others have written since, it was still the same request.
        let new = first.op == *op;
        Ok(Started { run, new })
    }

    /// Keeps a plan that runs can then be started from.
    pub async fn keep_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), EngineError> {
        let hash = plan.hash();
        if self.plans.has(tenant, &hash) {
            return Ok(());
        }
        let compiled = CompiledPlan::compile(plan.clone())
            .map_err(|error| EngineError::BadPlan { plan: hash, why: error.to_string() })?;
        self.patiently(|| self.store.put_plan(tenant, plan)).await?;
        self.plans.put(tenant, hash, Arc::new(compiled));
        Ok(())
    }

    /// A payload as the ledger keeps it: in place if it is small, by pointer if not.
    pub(crate) async fn keep(
        &self,
        tenant: &TenantId,
        value: &Value,
    ) -> Result<(Payload, Fingerprint), EngineError> {
        let canonical = json::canonical(value);
        let fingerprint = Fingerprint::of_canonical(&canonical);
        if canonical.len() <= INLINE_BYTES_MAX {
            return Ok((Payload::Inline(value.clone()), fingerprint));
        }
        let blob = self.patiently(|| self.store.put_blob(Shelf::Payloads, tenant, canonical.clone())).await?;
        Ok((Payload::Blob(blob), fingerprint))
    }

    /// A payload's value, wherever it is kept.
    pub(crate) async fn fetch(&self, tenant: &TenantId, payload: &Payload) -> Result<Value, EngineError> {
        match payload {
            Payload::Inline(value) => Ok(value.clone()),
            Payload::Blob(blob) => {
                let missing = || EngineError::NoPayload {
                    payload: Fingerprint { sha256: blob.sha256, bytes: blob.bytes },
                };
                let bytes = self
                    .patiently(|| self.store.blob(Shelf::Payloads, tenant, blob))
                    .await?
                    .ok_or_else(missing)?;
                json::parse(&bytes)
                    .map_err(|source| EngineError::BadInput { what: "a stored payload", source })
            }
        }
    }
}
