//! The policy that counts, and what one would say about a workflow.

use std::collections::BTreeMap;

use domain::plan::{Environment, PlannedStep};
use domain::{
    Action, Blast, Demand, Digest, Plan, Ruling, StepId, TenantId, ToolName, Verdict, WorkflowName,
};
use engine::{Counting, Foreseen, Judged};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use views::time::moment;
use views::tool;

use crate::word;

/// A policy to settle on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyPolicy {
    /// Its Rego files by their paths, tests included: at most 64 files and 256 KiB.
    pub files: BTreeMap<String, String>,
}

/// A policy has come to count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyApplied {
    /// For whom.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// The one that counted before, by hash; the one that ships with the runtime, if absent.
    #[schema(value_type = Option<String>)]
    pub old: Option<Digest>,
    /// The one that counts now.
    #[schema(value_type = String)]
    pub new: Digest,
    /// Whether it is another one.
    pub changed: bool,
    /// The revision of what the tenant has settled.
    pub revision: u32,
}

impl PolicyApplied {
    /// The policy that `tenant` has settled on.
    pub fn new(tenant: TenantId, applied: &engine::PolicyApplied) -> Self {
        let &engine::PolicyApplied { before, now, revision } = applied;
        Self { tenant, old: before, new: now, changed: before != Some(now), revision }
    }
}

/// Where a policy comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyFrom {
    /// It ships with the runtime.
    Shipped,
    /// This tenant has settled on it.
    Tenant(String),
    /// It was sent with the request.
    Sent,
}

impl PolicyFrom {
    fn of(counting: &Counting) -> Self {
        match counting.tenant.policy {
            Some(_) => Self::Tenant(counting.tenant.tenant.to_string()),
            None => Self::Shipped,
        }
    }
}

/// The policy that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// For whom.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// Its hash, over all files that take part in a verdict.
    #[schema(value_type = String)]
    pub hash: Digest,
    /// Where it comes from.
    pub from: PolicyFrom,
    /// Who settled on it, if that is known.
    pub settled_by: Option<String>,
    /// When.
    pub settled_at: Option<String>,
    /// Why it cannot be used, if it cannot: every action is then denied.
    pub fault: Option<String>,
    /// How many rules it has.
    pub rules: usize,
    /// How many tests it has.
    pub tests: usize,
    /// Its files by their paths, tests included.
    pub files: BTreeMap<String, String>,
}

impl From<Counting> for Policy {
    fn from(counting: Counting) -> Self {
        let (hash, from) = (counting.hash(), PolicyFrom::of(&counting));
        let Counting { tenant, bundle } = counting;
        let settled = tenant.policy_settled;
        let settled_at = settled.as_ref().map(|settled| moment(settled.at));
        let settled_by = settled.map(|settled| settled.by.id);
        let (fault, rules, tests, files) = match bundle {
            Ok(bundle) => (None, bundle.rule_count(), bundle.test_count(), bundle.files().clone()),
            Err((_, why)) => (Some(why), 0, 0, BTreeMap::new()),
        };
        Self { tenant: tenant.tenant, hash, from, settled_by, settled_at, fault, rules, tests, files }
    }
}

/// A question: what would policy say? It is about a workflow in use, about one that is sent, or about a single action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainPolicy {
    /// A workflow in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub workflow: Option<WorkflowName>,
    /// Which version of it; the newest, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// A workflow that need not be in use, in YAML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A single action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<SampleAction>,
    /// Only this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub step: Option<StepId>,
    /// The run's input; an empty object, if absent.
    #[serde(default = "nothing")]
    #[schema(value_type = Value)]
    pub input: Value,
    /// Samples of what steps give, by step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub outputs: BTreeMap<StepId, Value>,
    /// The files of a policy to ask instead of the one that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<BTreeMap<String, String>>,
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

/// A single action, as a step of a workflow would name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SampleAction {
    /// Which tool.
    #[schema(value_type = String)]
    pub tool: ToolName,
    /// What it is told.
    #[serde(default = "nothing")]
    #[schema(value_type = Object)]
    pub with: Value,
    /// `dev`, `staging` or `prod`; `prod`, if absent.
    #[serde(default)]
    #[schema(value_type = String)]
    pub environment: Environment,
    /// How far a mistake would reach: `low`, `medium` or `high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub blast_radius: Option<Blast>,
}

/// What policy would say about a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// For whom.
    #[schema(value_type = String)]
    pub tenant: TenantId,
    /// Which workflow.
    #[schema(value_type = String)]
    pub workflow: WorkflowName,
    /// Its version.
    pub version: u32,
    /// Where it runs: `dev`, `staging` or `prod`.
    pub environment: String,
    /// Its plan, by hash.
    #[schema(value_type = String)]
    pub plan: Digest,
    /// Which policy was asked.
    pub policy: PolicyNamed,
    /// What would come of each step that was asked about, in their order.
    pub steps: Vec<ExplainedStep>,
}

/// Which policy was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyNamed {
    /// Its hash.
    #[schema(value_type = String)]
    pub hash: Digest,
    /// Where it comes from.
    pub from: PolicyFrom,
}

impl Explained {
    /// What would come of each step of `plan`; `sent` says whether the policy came with the question.
    pub fn new(plan: &Plan, explained: &engine::Explained, sent: bool) -> Self {
        let counting = &explained.counting;
        let from = if sent { PolicyFrom::Sent } else { PolicyFrom::of(counting) };
        let steps = plan.steps.iter().zip(&explained.steps);
        Self {
            tenant: counting.tenant.tenant.clone(),
            workflow: plan.workflow.clone(),
            version: plan.version,
            environment: word(&plan.environment),
            plan: plan.hash(),
            policy: PolicyNamed { hash: counting.hash(), from },
            steps: steps.map(|(step, foreseen)| ExplainedStep::new(step, foreseen)).collect(),
        }
    }
}

/// What would come of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedStep {
    /// Which step.
    #[schema(value_type = String)]
    pub id: StepId,
    /// What it calls.
    pub tool: String,
    /// `judged`; or why policy is not asked: `no_effect`, `waits`, `asks`, `reads_outputs`, `unbound`, `refused`,
    /// `out_of_time`.
    pub outcome: String,
    /// What would be said: `deny`, `allow`, or `needs_approval` with who must say yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub ruling: Option<Ruling>,
    /// The same with the rules that led to it, each with its file and line, and the hash of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub verdict: Option<Verdict>,
    /// Who must say yes, where the workflow itself asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub demand: Option<Demand>,
    /// The action, as far as it can be said without a look outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub action: Option<Action>,
    /// The hash of the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub action_hash: Option<Digest>,
    /// What every rule of the policy had to say, and what the rules saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub explanation: Option<Value>,
    /// The steps whose outputs it reads, and which are not there yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub missing: Option<Vec<StepId>>,
    /// Why nothing more is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl ExplainedStep {
    fn new(step: &PlannedStep, foreseen: &Foreseen) -> Self {
        let plain = |outcome: &str| Self {
            id: step.id.clone(),
            tool: tool(&step.work).to_owned(),
            outcome: outcome.to_owned(),
            ruling: None,
            verdict: None,
            demand: None,
            action: None,
            action_hash: None,
            explanation: None,
            missing: None,
            why: None,
        };
        match foreseen {
            Foreseen::NoEffect => plain("no_effect"),
            Foreseen::Waits => plain("waits"),
            Foreseen::Asks(demand) => Self { demand: Some(demand.clone()), ..plain("asks") },
            Foreseen::Reads(missing) => Self { missing: Some(missing.clone()), ..plain("reads_outputs") },
            Foreseen::Unbound(why) => Self { why: Some(why.clone()), ..plain("unbound") },
            Foreseen::Refused(why) => Self { why: Some(why.clone()), ..plain("refused") },
            Foreseen::OutOfTime => plain("out_of_time"),
            Foreseen::Judged(judged) => plain("judged").judged(judged),
        }
    }

    fn judged(self, Judged { action, verdict, explanation }: &Judged) -> Self {
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
