//! Payloads and plans, as the ledger stores them.

use std::sync::Arc;

use domain::payload::{Fingerprint, INLINE_BYTES_MAX};
use domain::{Payload, Plan, TenantId, json};
use serde_json::Value;
use store::{BlobKind, Store};
use workflow::CompiledPlan;

use crate::core::Core;
use crate::error::EngineError;

impl<S: Store> Core<S> {
    /// Stores a plan, so that runs can be started from it.
    pub(crate) async fn put_plan(&self, tenant: &TenantId, plan: &Plan) -> Result<(), EngineError> {
        let hash = plan.hash();
        if self.plans.has(tenant, &hash) {
            return Ok(());
        }
        let compiled = CompiledPlan::compile(plan.clone())
            .map_err(|error| EngineError::BadPlan { plan: hash, why: error.to_string() })?;
        self.retry_busy(|store| store.put_plan(tenant, plan)).await?;
        self.plans.put(tenant, hash, Arc::new(compiled));
        Ok(())
    }

    /// A small payload stays inline; a large one is stored as a blob.
    pub(crate) async fn put_payload(
        &self,
        tenant: &TenantId,
        value: &Value,
    ) -> Result<(Payload, Fingerprint), EngineError> {
        let canonical = json::canonical(value);
        let fingerprint = Fingerprint::of_canonical(&canonical);
        if canonical.len() <= INLINE_BYTES_MAX {
            return Ok((Payload::Inline(value.clone()), fingerprint));
        }
        let blob =
            self.retry_busy(|store| store.put_blob(BlobKind::Payloads, tenant, canonical.clone())).await?;
        Ok((Payload::Blob(blob), fingerprint))
    }

    pub(crate) async fn payload(&self, tenant: &TenantId, payload: &Payload) -> Result<Value, EngineError> {
        match payload {
            Payload::Inline(value) => Ok(value.clone()),
            Payload::Blob(blob) => {
                let missing = || EngineError::NoPayload {
                    payload: Fingerprint { sha256: blob.sha256, bytes: blob.bytes },
                };
                let bytes = self
                    .retry_busy(|store| store.blob(BlobKind::Payloads, tenant, blob))
                    .await?
                    .ok_or_else(missing)?;
                json::parse(&bytes)
                    .map_err(|source| EngineError::BadInput { what: "a stored payload", source })
            }
        }
    }
}
