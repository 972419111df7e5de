//! Workflows that a tenant has applied.

use std::sync::Arc;

use domain::audit::AdminChange;
use domain::{AppliedWorkflow, Plan, Refusal, RunRecord, Tenant, WorkflowName};
use store::{AuditedWrite, Store, Write};
use workflow::CompiledPlan;

use crate::admission::schedule::first_occurrence;
use crate::error::EngineError;
use crate::tenant_handle::TenantHandle;

impl<S: Store> TenantHandle<S> {
    /// Applies a workflow: from now on its trigger starts runs of this version.
    pub async fn apply(&self, plan: &Plan) -> Result<AppliedWorkflow, EngineError> {
        let applied = self.check_plan(plan).await?;
        self.core.put_plan(&self.tenant, plan).await?;
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

    /// Refuses a workflow that does not fit the tenant: its author, its connections, its trigger or its version. Returns
    /// what [`apply`](Self::apply) would write.
    pub async fn check_plan(&self, plan: &Plan) -> Result<AppliedWorkflow, EngineError> {
        let tenant = self.core.retry_busy(|store| store.tenant(&self.tenant)).await?;
        let tenant = tenant.unwrap_or_else(|| Tenant::new(self.tenant.clone()));
        check_author(plan, &tenant)?;
        self.check_connections(plan, &tenant)?;
        self.check_trigger(plan).await?;
        let (workflow, version) = (plan.workflow.clone(), plan.version);
        let versions = self.versions(&workflow).await?;
        // Applying the same version again keeps who applied it first, and when.
        if let Some(same) =
            versions.iter().find(|applied| applied.version == version && applied.plan == plan.hash())
        {
            return Ok(same.clone());
        }
        if versions.iter().any(|applied| applied.version >= version) {
            return Err(Refusal::WorkflowNotNewer { workflow, version }.into());
        }
        Ok(AppliedWorkflow {
            tenant: self.tenant.clone(),
            workflow,
            version,
            plan: plan.hash(),
            triggered_by: plan.triggered_by.clone(),
            at: self.now(),
            by: self.by.clone(),
        })
    }

    /// Refuses a step whose connection is missing, is of another kind, or is one of several.
    fn check_connections(&self, plan: &Plan, tenant: &Tenant) -> Result<(), EngineError> {
        for step in &plan.steps {
            for call in step.calls() {
                let Some(tool) = self.core.tools.get(&call.tool) else { continue };
                let call = (&**tool, call.connection.as_ref());
                let checked = self.core.connections.check_call(tenant, call);
                checked.map_err(|failure| EngineError::StepConnection {
                    step: step.id.clone(),
                    why: failure.message,
                })?;
            }
        }
        Ok(())
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

/// Refuses an author who is not in the directory. If the tenant lists no users, every author is accepted.
fn check_author(plan: &Plan, tenant: &Tenant) -> Result<(), EngineError> {
    match &plan.author {
        Some(author) if !tenant.knows(author) => {
            Err(Refusal::UnknownAuthor { workflow: plan.workflow.clone(), author: author.clone() }.into())
        }
        Some(_) | None => Ok(()),
    }
}
