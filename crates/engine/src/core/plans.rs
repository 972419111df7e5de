//! Compiled plans in memory. A plan is named by its hash, so a cached plan is never stale.

use std::sync::Arc;

use domain::{Digest, RunRecord, TenantId, json};
use store::Store;
use workflow::CompiledPlan;

use crate::core::cache::LruCache;
use crate::core::{Core, LoadedRun};
use crate::error::EngineError;

/// A worker of a large fleet sees the workflows of a thousand tenants.
const PLANS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A compiled plan takes about this many times the bytes of its JSON.
const COMPILED_SIZE: usize = 8;

pub(crate) struct PlanCache(LruCache<(TenantId, Digest), Arc<CompiledPlan>>);

impl Default for PlanCache {
    fn default() -> Self {
        Self(LruCache::new(PLANS_BYTES_MAX))
    }
}

impl PlanCache {
    fn get(&self, tenant: &TenantId, hash: &Digest) -> Option<Arc<CompiledPlan>> {
        self.0.get(&(tenant.clone(), *hash))
    }

    pub(crate) fn has(&self, tenant: &TenantId, hash: &Digest) -> bool {
        self.get(tenant, hash).is_some()
    }

    pub(crate) fn put(&self, tenant: &TenantId, hash: Digest, plan: Arc<CompiledPlan>) {
        let bytes = json::canonical(plan.plan()).len() * COMPILED_SIZE;
        self.0.put((tenant.clone(), hash), plan, bytes);
    }
}

impl<S: Store> Core<S> {
    pub(crate) async fn with_plan(&self, record: RunRecord) -> Result<LoadedRun, EngineError> {
        let plan = self.plan_of(&record).await?;
        self.with_approval(record, plan).await
    }

    /// The run with the approval request that its current step waits for or was approved by. A request changes only
    /// together with the record, so a current record has the current request.
    pub(crate) async fn with_approval(
        &self,
        record: RunRecord,
        plan: Arc<CompiledPlan>,
    ) -> Result<LoadedRun, EngineError> {
        let approval = match record.step_state.approval() {
            Some(id) => self.retry_busy(|store| store.approval(&record.key.tenant, id)).await?,
            None => None,
        };
        Ok(LoadedRun { record, plan, approval })
    }

    async fn plan_of(&self, record: &RunRecord) -> Result<Arc<CompiledPlan>, EngineError> {
        self.plan(&record.key.tenant, record.plan).await
    }

    /// The plan `hash` of a tenant.
    pub(crate) async fn plan(
        &self,
        tenant: &TenantId,
        hash: Digest,
    ) -> Result<Arc<CompiledPlan>, EngineError> {
        if let Some(plan) = self.plans.get(tenant, &hash) {
            return Ok(plan);
        }
        let missing = || EngineError::NoPlan { tenant: tenant.clone(), plan: hash };
        let plan = self.retry_busy(|store| store.plan(tenant, &hash)).await?.ok_or_else(missing)?;
        let plan = CompiledPlan::compile(plan)
            .map_err(|error| EngineError::BadPlan { plan: hash, why: error.to_string() })?;
        let plan = Arc::new(plan);
        self.plans.put(tenant, hash, Arc::clone(&plan));
        Ok(plan)
    }
}
