//! Policy requests for tests.

use countersign_policy::{CapUsage, PolicyRequest, RunContext, StepContext};
use domain::plan::{Environment, Phase};
use domain::{
    Action, ActionOrigin, BlastRadius, EffectClass, FieldChange, IdempotencyKey, PersonId, Reversibility,
    StepId, TenantId, ToolName, WorkflowName, WorkspaceId,
};
use serde_json::json;

/// An owned request: a small reversible change in dev. Each test replaces the parts it covers.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) action: Action,
    pub(crate) step: StepId,
    pub(crate) blast_radius: BlastRadius,
    pub(crate) critical: bool,
    pub(crate) rollback: bool,
    pub(crate) origin: ActionOrigin,
    pub(crate) attempt: u32,
    pub(crate) tenant: TenantId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) workflow: WorkflowName,
    pub(crate) environment: Environment,
    pub(crate) trigger: String,
    pub(crate) requester: Option<PersonId>,
    pub(crate) caps: CapUsage,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            action: action(),
            step: StepId::new("assign").unwrap(),
            blast_radius: BlastRadius::Low,
            critical: false,
            rollback: false,
            origin: ActionOrigin::Forward,
            attempt: 1,
            tenant: TenantId::new("acme").unwrap(),
            workspace: WorkspaceId::new("default").unwrap(),
            workflow: WorkflowName::new("incident-triage").unwrap(),
            environment: Environment::Dev,
            trigger: "servicenow".to_owned(),
            requester: None,
            caps: CapUsage { writes_done: 0, writes_max: 64 },
        }
    }
}

impl Case {
    pub(crate) fn request(&self) -> PolicyRequest<'_> {
        PolicyRequest {
            action: &self.action,
            step: StepContext {
                id: &self.step,
                blast_radius: self.blast_radius,
                critical: self.critical,
                phase: Phase::Main,
                rollback: self.rollback,
                origin: self.origin,
                attempt: self.attempt,
            },
            run: RunContext {
                tenant: &self.tenant,
                workspace: &self.workspace,
                workflow: &self.workflow,
                version: 3,
                environment: self.environment,
                trigger: &self.trigger,
                requester: self.requester.as_ref(),
            },
            caps: self.caps,
        }
    }
}

pub(crate) fn action() -> Action {
    Action {
        tool: ToolName::new("servicenow.update").unwrap(),
        contract: 1,
        class: EffectClass::CompareAndSet,
        reversibility: Reversibility::Inverse,
        target: "incident/9d38".to_owned(),
        key: IdempotencyKey::new("sn:incident:update:9d38").unwrap(),
        key_retention: None,
        fields: json!({
            "table": "incident",
            "sys_id": "9d38",
            "fields": {"assignment_group": "db-oncall", "work_notes": "the disk is full"},
        }),
        changes: vec![FieldChange {
            field: "assignment_group".to_owned(),
            before: Some(json!("service-desk")),
            after: json!("db-oncall"),
        }],
        destructive: false,
        estimate_microusd: None,
        connection: None,
    }
}
