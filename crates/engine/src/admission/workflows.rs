//! Workflows that a tenant has applied.

use domain::{AppliedWorkflow, Initiator, Plan, Refusal, TenantId, WorkflowName};
use store::{Store, Write};

use crate::Engine;
use crate::error::EngineError;

impl<S: Store> Engine<S> {
    /// Applies a workflow: from now on its trigger starts runs of this version.
    pub async fn apply(
        &self,
        tenant: &TenantId,
        plan: &Plan,
        by: Initiator,
    ) -> Result<AppliedWorkflow, EngineError> {
        self.put_plan(tenant, plan).await?;
        // Applying the same version again keeps who applied it first, and when.
        let versions = self.versions(tenant, &plan.workflow).await?;
        let known =
            versions.into_iter().find(|known| known.version == plan.version && known.plan == plan.hash());
        let applied = known.unwrap_or_else(|| AppliedWorkflow {
            tenant: tenant.clone(),
            workflow: plan.workflow.clone(),
            version: plan.version,
            plan: plan.hash(),
            triggered_by: plan.triggered_by.clone(),
            at: self.now(),
            by,
        });
        let due = self.first_occurrence(plan)?;
        match self.retry_busy(|| self.store.apply(applied.clone(), due)).await? {
            Write::Committed => Ok(applied),
            Write::Superseded => {
                Err(Refusal::WorkflowNotNewer { workflow: applied.workflow, version: applied.version }.into())
            }
        }
    }

    /// Every applied version of a workflow, the newest first.
    pub async fn versions(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowName,
    ) -> Result<Vec<AppliedWorkflow>, EngineError> {
        Ok(self.retry_busy(|| self.store.versions(tenant, workflow)).await?)
    }

    /// The newest applied version of each workflow, by name.
    pub async fn applied(&self, tenant: &TenantId) -> Result<Vec<AppliedWorkflow>, EngineError> {
        Ok(self.retry_busy(|| self.store.applied(tenant)).await?)
    }
}
