//! Workflows that a tenant has applied.

use std::sync::Arc;

use domain::audit::AdminChange;
use domain::{AppliedWorkflow, Plan, Refusal, RunRecord, WorkflowName};
use store::{AuditedWrite, Store, Write};
use workflow::CompiledPlan;

use crate::admission::schedule::first_occurrence;
use crate::error::EngineError;
use crate::tenant_handle::TenantHandle;

impl<S: Store> TenantHandle<S> {
    /// Applies a workflow: from now on its trigger starts runs of this version.
    pub async fn apply(&self, plan: &Plan) -> Result<AppliedWorkflow, EngineError> {
        self.check_author(plan).await?;
        self.check_trigger(plan).await?;
        self.core.put_plan(&self.tenant, plan).await?;
        // Applying the same version again keeps who applied it first, and when.
        let versions = self.versions(&plan.workflow).await?;
        let existing = versions
            .into_iter()
            .find(|existing| existing.version == plan.version && existing.plan == plan.hash());
        let applied = existing.unwrap_or_else(|| AppliedWorkflow {
            tenant: self.tenant.clone(),
            workflow: plan.workflow.clone(),
            version: plan.version,
            plan: plan.hash(),
            triggered_by: plan.triggered_by.clone(),
            at: self.now(),
            by: self.by.clone(),
        });
        let due = first_occurrence(plan, self.now())?;
        let change = AdminChange::WorkflowApplied {
            workflow: applied.workflow.clone(),
            version: applied.version,
            plan: applied.plan,
        };
        match self.write_audited(AuditedWrite::Workflow(applied.clone(), due), change).await? {
            Write::Committed => Ok(applied),
            Write::Superseded => {
                Err(Refusal::WorkflowNotNewer { workflow: applied.workflow, version: applied.version }.into())
            }
        }
    }

    /// Refuses an author who is not in the directory. If the tenant lists no users, every author is accepted.
    async fn check_author(&self, plan: &Plan) -> Result<(), EngineError> {
        let Some(author) = &plan.author else { return Ok(()) };
        let tenant = self.core.retry_busy(|store| store.tenant(&self.tenant)).await?;
        if tenant.is_none_or(|tenant| tenant.knows(author)) {
            return Ok(());
        }
        Err(Refusal::UnknownAuthor { workflow: plan.workflow.clone(), author: author.clone() }.into())
    }

    /// Refuses a trigger whose events match another workflow too: they would start neither.
    async fn check_trigger(&self, plan: &Plan) -> Result<(), EngineError> {
        let Some(trigger) = &plan.triggered_by else { return Ok(()) };
        let is_other = |applied: &AppliedWorkflow| {
            let other = applied.triggered_by.as_ref();
            applied.workflow != plan.workflow && other.is_some_and(|other| other.is_ambiguous_with(trigger))
        };
        match self.workflows().await?.into_iter().find(is_other) {
            None => Ok(()),
            Some(other) => {
                let workflow = plan.workflow.clone();
                Err(Refusal::AmbiguousTrigger { workflow, other: other.workflow }.into())
            }
        }
    }

    /// The newest applied version of each workflow, by name.
    pub async fn workflows(&self) -> Result<Vec<AppliedWorkflow>, EngineError> {
        Ok(self.core.retry_busy(|store| store.applied(&self.tenant)).await?)
    }

    /// Every applied version of a workflow, the newest first; empty if there is no such workflow.
    pub async fn versions(&self, name: &WorkflowName) -> Result<Vec<AppliedWorkflow>, EngineError> {
        Ok(self.core.retry_busy(|store| store.versions(&self.tenant, name)).await?)
    }

    /// The applied workflow of this name, with its plan.
    pub async fn applied(
        &self,
        name: &WorkflowName,
    ) -> Result<(AppliedWorkflow, Arc<CompiledPlan>), EngineError> {
        let applied = self.workflows().await?.into_iter().find(|applied| applied.workflow == *name);
        self.with_plan(name, applied).await
    }

    /// An applied version of a workflow, with its plan.
    pub async fn version(
        &self,
        name: &WorkflowName,
        version: u32,
    ) -> Result<(AppliedWorkflow, Arc<CompiledPlan>), EngineError> {
        let applied = self.versions(name).await?.into_iter().find(|applied| applied.version == version);
        self.with_plan(name, applied).await
    }

    async fn with_plan(
        &self,
        name: &WorkflowName,
        applied: Option<AppliedWorkflow>,
    ) -> Result<(AppliedWorkflow, Arc<CompiledPlan>), EngineError> {
        let applied = applied.ok_or_else(|| EngineError::NoWorkflow { workflow: name.clone() })?;
        let plan = self.core.plan(&self.tenant, applied.plan).await?;
        Ok((applied, plan))
    }

    pub async fn plan_of(&self, record: &RunRecord) -> Result<Arc<CompiledPlan>, EngineError> {
        self.core.plan(&self.tenant, record.plan).await
    }
}
