//! The policy in force, and the evaluation of a policy for a workflow.

use std::collections::BTreeMap;

use domain::plan::{Environment, PlannedStep, Undo};
use domain::{
    Action, ApprovalRequirement, BlastRadius, Digest, Plan, Ruling, StepId, StepSeq, TenantId, ToolName,
    Verdict, WorkflowName,
};
use engine::{EvaluatedAction, StepForecast, TenantBundle, TenantPolicy};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use views::time::rfc3339_millis;
use views::tool;

use crate::enum_name;

/// A request to apply a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyPolicy {
    /// The Rego files by path, including tests: at most 64 files and 256 KiB.
    pub files: BTreeMap<String, String>,
}

/// An applied policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyApplied {
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// The hash of the previous policy; null for the default policy.
    #[schema(value_type = Option<String>)]
    pub old: Option<Digest>,
    /// The hash of the policy in force now.
    #[schema(value_type = String)]
    pub new: Digest,
    /// Whether the policy changed.
    pub changed: bool,
    /// The revision of the tenant settings.
    pub revision: u32,
}

impl PolicyApplied {
    pub fn new(tenant: TenantId, applied: &engine::PolicyApplied) -> Self {
        let &engine::PolicyApplied { before, now, revision } = applied;
        Self { tenant, old: before, new: now, changed: before != Some(now), revision }
    }
}

/// The origin of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyOrigin {
    /// The default policy.
    Default,
    /// The policy of this tenant.
    Tenant(String),
    /// The policy in the request.
    Request,
}

impl PolicyOrigin {
    fn new(policy: &TenantPolicy) -> Self {
        match policy.tenant.policy {
            Some(_) => Self::Tenant(policy.tenant.tenant.to_string()),
            None => Self::Default,
        }
    }
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// The hash of all files that take part in a verdict.
    #[schema(value_type = String)]
    pub hash: Digest,
    pub origin: PolicyOrigin,
    /// The user who applied it, if known.
    pub applied_by: Option<String>,
    pub applied_at: Option<String>,
    /// The reason if the policy cannot be used. Every action is denied then.
    pub error: Option<String>,
    /// The number of rules.
    pub rules: usize,
    /// The number of tests.
    pub tests: usize,
    /// The files by path, including tests.
    pub files: BTreeMap<String, String>,
}

impl From<TenantPolicy> for Policy {
    fn from(policy: TenantPolicy) -> Self {
        let (hash, origin) = (policy.hash(), PolicyOrigin::new(&policy));
        let TenantPolicy { tenant, bundle } = policy;
        let change = tenant.policy_changed;
        let applied_at = change.as_ref().map(|change| rfc3339_millis(change.at));
        let applied_by = change.map(|change| change.by.id);
        let (error, rules, tests, files) = match bundle {
            TenantBundle::Usable(bundle) => {
                (None, bundle.rule_count(), bundle.test_count(), bundle.files().clone())
            }
            TenantBundle::Unusable { why, .. } => (Some(why), 0, 0, BTreeMap::new()),
        };
        Self { tenant: tenant.tenant, hash, origin, applied_by, applied_at, error, rules, tests, files }
    }
}

/// A request to evaluate the policy for an applied workflow, for a workflow in the request, or for a single action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainPolicy {
    /// An applied workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub workflow: Option<WorkflowName>,
    /// The version of the workflow; the latest by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// A workflow file, in YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A single action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<SampleAction>,
    /// Limits the response to this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub step: Option<StepId>,
    /// The input of the run; an empty object by default.
    #[serde(default = "empty_object")]
    #[schema(value_type = Value)]
    pub input: Value,
    /// Sample outputs by step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub outputs: BTreeMap<StepId, Value>,
    /// The files of a policy to evaluate instead of the policy in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<BTreeMap<String, String>>,
}

fn empty_object() -> Value {
    Value::Object(Map::new())
}

/// A single action, as a step of a workflow would name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleAction {
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// The fields of the tool.
    #[serde(default = "empty_object")]
    #[schema(value_type = Object)]
    pub with: Value,
    /// `dev`, `staging` or `prod`; `prod` by default.
    #[serde(default)]
    #[schema(value_type = String)]
    pub environment: Environment,
    /// `low`, `medium` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub blast_radius: Option<BlastRadius>,
}

/// The evaluation of a policy for a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainResult {
    #[schema(value_type = String)]
    pub tenant: TenantId,
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    pub version: u32,
    /// `dev`, `staging` or `prod`.
    pub environment: String,
    /// The hash of the plan.
    #[schema(value_type = String)]
    pub plan: Digest,
    /// The evaluated policy.
    pub policy: PolicyRef,
    /// The result for each requested step, in the order of the workflow. The rollback that the workflow declares for a
    /// step follows it.
    pub steps: Vec<ExplainedStep>,
}

/// The evaluated policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyRef {
    #[schema(value_type = String)]
    pub hash: Digest,
    pub origin: PolicyOrigin,
}

impl ExplainResult {
    /// The result for each step of `plan`. `in_request` is true if the request holds the policy.
    pub fn new(plan: &Plan, explained: &engine::DryRun, in_request: bool) -> Self {
        let policy = &explained.tenant_policy;
        let origin = if in_request { PolicyOrigin::Request } else { PolicyOrigin::new(policy) };
        let steps = (0_u16..).map(StepSeq).zip(&plan.steps).zip(&explained.steps);
        let with_rollback = |((seq, step), forecast): ((StepSeq, &PlannedStep), &StepForecast)| {
            let rollback =
                explained.rollbacks.get(&seq).map(|rollback| ExplainedStep::rollback(step, rollback));
            std::iter::once(ExplainedStep::new(step, forecast)).chain(rollback)
        };
        Self {
            tenant: policy.tenant.tenant.clone(),
            workflow: plan.workflow.clone(),
            version: plan.version,
            environment: enum_name(&plan.environment),
            plan: plan.hash(),
            policy: PolicyRef { hash: policy.hash(), origin },
            steps: steps.flat_map(with_rollback).collect(),
        }
    }
}

/// The result of the evaluation for one step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedStep {
    #[schema(value_type = String)]
    pub id: StepId,
    pub tool: String,
    /// Whether this is the rollback that the workflow declares for the step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rollback: bool,
    /// `evaluated`, or the reason why the policy is not evaluated: `no_effect`, `wait`, `approval_gate`,
    /// `missing_outputs`, `missing_values`, `refused`, `timed_out`.
    pub outcome: String,
    /// `deny`, `allow`, or `needs_approval` with the required approvers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub ruling: Option<Ruling>,
    /// The ruling with its rules, each with its file and line, and the hash of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub verdict: Option<Verdict>,
    /// The required approvers of an `approval.gate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub requirement: Option<ApprovalRequirement>,
    /// The action, as far as it is known without reading the external system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub action: Option<Action>,
    /// The hash of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub action_hash: Option<Digest>,
    /// The result of every rule, and the input of the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub explanation: Option<Value>,
    /// The steps whose outputs are needed and were not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub missing: Option<Vec<StepId>>,
    /// The reason why the evaluation is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ExplainedStep {
    fn new(step: &PlannedStep, forecast: &StepForecast) -> Self {
        let plain = |outcome: &str| Self {
            id: step.id.clone(),
            tool: tool(&step.work).to_owned(),
            rollback: false,
            outcome: outcome.to_owned(),
            ruling: None,
            verdict: None,
            requirement: None,
            action: None,
            action_hash: None,
            explanation: None,
            missing: None,
            reason: None,
        };
        match forecast {
            StepForecast::NoEffect => plain("no_effect"),
            StepForecast::WaitsForEvent => plain("wait"),
            StepForecast::RequiresApproval(requirement) => {
                Self { requirement: Some(requirement.clone()), ..plain("approval_gate") }
            }
            StepForecast::MissingOutputs(missing) => {
                Self { missing: Some(missing.clone()), ..plain("missing_outputs") }
            }
            StepForecast::InvalidExpression(why) => {
                Self { reason: Some(why.clone()), ..plain("missing_values") }
            }
            StepForecast::Refused(why) => Self { reason: Some(why.clone()), ..plain("refused") },
            StepForecast::TimedOut => plain("timed_out"),
            StepForecast::Evaluated(evaluated) => plain("evaluated").with_verdict(evaluated),
        }
    }

    fn rollback(step: &PlannedStep, forecast: &StepForecast) -> Self {
        let tool = match &step.rollback {
            Some(Undo::Call(call)) => call.tool.to_string(),
            Some(Undo::Auto) | None => String::new(),
        };
        Self { tool, rollback: true, ..Self::new(step, forecast) }
    }

    fn with_verdict(self, EvaluatedAction { action, verdict, explanation }: &EvaluatedAction) -> Self {
        Self {
            ruling: Some(verdict.ruling.clone()),
            verdict: Some(verdict.clone()),
            action_hash: Some(action.hash()),
            action: Some(action.clone()),
            explanation: explanation.as_ref().map(|explanation| json!(explanation)),
            ..self
        }
    }
}
