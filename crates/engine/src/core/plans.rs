//! Compiled plans in memory. A plan is named by its hash, so a cached plan is never stale.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::{Digest, RunRecord, TenantId};
use parking_lot::Mutex;
use store::Store;
use workflow::CompiledPlan;

use crate::core::{Core, Loaded};
use crate::error::EngineError;

/// A worker sees a few workflows repeatedly; this many plans take a few megabytes.
const PLANS_MAX: usize = 256;

#[derive(Default)]
pub(crate) struct PlanCache {
    plans: Mutex<BTreeMap<(TenantId, Digest), Arc<CompiledPlan>>>,
}

impl PlanCache {
    fn get(&self, tenant: &TenantId, hash: &Digest) -> Option<Arc<CompiledPlan>> {
        let plans = self.plans.lock();
        plans.get(&(tenant.clone(), *hash)).cloned()
    }

    pub(crate) fn has(&self, tenant: &TenantId, hash: &Digest) -> bool {
        self.get(tenant, hash).is_some()
    }

    pub(crate) fn put(&self, tenant: &TenantId, hash: Digest, plan: Arc<CompiledPlan>) {
        let mut plans = self.plans.lock();
        // Clearing the cache now and then is cheaper than tracking use.
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert((tenant.clone(), hash), plan);
    }
}

impl<S: Store> Core<S> {
    pub(crate) async fn with_plan(&self, record: RunRecord) -> Result<Loaded, EngineError> {
        let plan = self.plan_of(&record).await?;
        self.with_approval(record, plan).await
    }

    /// The run with the approval request that its current step waits for or was approved by. A request changes only
    /// together with the record, so a current record has the current request.
    pub(crate) async fn with_approval(
        &self,
        record: RunRecord,
        plan: Arc<CompiledPlan>,
    ) -> Result<Loaded, EngineError> {
        let approval = match record.live.approval() {
            Some(id) => self.retry_busy(|store| store.approval(&record.key.tenant, id)).await?,
            None => None,
        };
        Ok(Loaded { record, plan, approval })
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
