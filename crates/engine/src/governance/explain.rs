//! Dry run: the policy verdict on every step of a workflow, without running any.
//!
//! Each call is bound, proposed and evaluated as a worker would on the first attempt, but no external system is read.
//! Each step assumes that all earlier ones were allowed and succeeded.

use std::collections::BTreeMap;
use std::sync::Arc;

use connectors::{ProposalRequest, ToolRegistry};
use domain::command::{Admit, admit};
use domain::payload::Fingerprint;
use domain::plan::{Call, InputRefs, PlannedStep, Undo, Work};
use domain::record::{Rollback, RollbackEnds};
use domain::validation::{ActionContext, thousandths, tighten};
use domain::{
    Action, ActionOrigin, ApprovalRequirement, EffectClass, Failure, IdempotencyKey, Ruling, RunRecord,
    StepId, StepSeq, Verdict, failure, json,
};
use policy::{Explanation, PolicyBundle};
use serde_json::Value;
use store::{PolicyFiles, Store};
use workflow::{CompiledPlan, CompiledWork, Scope, Template};

use crate::core::bundles::TenantBundle;
use crate::core::connections::{ConnectionParts, ResolvedConnection};
use crate::error::EngineError;
use crate::governance::policies::TenantPolicy;
use crate::governance::policy_input;
use crate::tenant_handle::TenantHandle;

/// The tool whose output is known before it runs.
const TRANSFORM: &str = "transform";

/// A dry-run request.
#[derive(Clone)]
pub struct DryRunRequest {
    pub plan: Arc<CompiledPlan>,
    pub trigger_kind: String,
    pub input: Value,
    /// Sample outputs of steps.
    pub outputs: BTreeMap<StepId, Value>,
    /// The policy to evaluate; the tenant's current one if absent.
    pub policy: Option<PolicyFiles>,
}

/// The result of a dry run.
pub struct DryRun {
    /// The tenant's settings, and the policy that was evaluated.
    pub tenant_policy: TenantPolicy,
    pub steps: Vec<StepForecast>,
    /// The results for the rollbacks that the workflow declares, as if the run failed right after the step.
    pub rollbacks: BTreeMap<StepSeq, StepForecast>,
}

struct Forecast<'a> {
    plan: &'a CompiledPlan,
    tools: &'a ToolRegistry,
    connections: &'a ConnectionParts,
    tenant_policy: &'a TenantPolicy,
    /// The run as it would be admitted; updated from step to step.
    record: RunRecord,
    trigger: Arc<Value>,
    /// Outputs of steps, as far as they are known.
    outputs: BTreeMap<StepId, Arc<Value>>,
}

/// The result for one step.
pub enum StepForecast {
    /// It contacts no external system, so policy is not evaluated.
    NoEffect,
    /// It waits for an event.
    WaitsForEvent,
    /// The workflow itself asks for approval.
    RequiresApproval(ApprovalRequirement),
    /// It reads outputs that are not known.
    MissingOutputs(Vec<StepId>),
    /// An expression cannot be evaluated with the known values.
    InvalidExpression(String),
    /// The tool would refuse the call.
    Refused(String),
    Evaluated(Box<EvaluatedAction>),
    /// The dry run reached its time limit before this step.
    TimedOut,
}

/// An action and its verdict.
pub struct EvaluatedAction {
    /// The action, as far as it is known without reading the external system.
    pub action: Action,
    /// The effective verdict of policy, validation mode and caps.
    pub verdict: Verdict,
    /// The policy's own answer, rule by rule; absent if it could not be evaluated.
    pub explanation: Option<Explanation>,
}

impl<S: Store> TenantHandle<S> {
    /// The verdict on every step, if the user started a run of the workflow now. Nothing is run, stored, or read from
    /// external systems.
    pub async fn explain(&self, request: DryRunRequest) -> Result<DryRun, EngineError> {
        let DryRunRequest { plan, trigger_kind, input, outputs, policy } = request;
        check_payloads(&input, &outputs)?;
        let tenant_policy = self.policy().await?;
        let command = Admit {
            tenant: self.tenant.clone(),
            workspace: plan.plan().workspace_of_run(None).unwrap_or_default(),
            trigger_kind,
            record: None,
            trace: None,
            key: forecast_key(),
            input: Fingerprint::of(&input),
            applied_by: None,
            inherited: domain::Inherited::default(),
        };
        let record = admit(command, plan.plan(), self.core.context(self.by.clone())).record;
        let (tools, trigger) = (self.core.tools.clone(), Arc::new(input));
        let connections = self.core.connections.clone();
        let outputs = outputs.into_iter().map(|(step, output)| (step, Arc::new(output))).collect();
        let dry_run = self.core.policy_pool.run(&self.tenant, move |should_stop| {
            let tenant_policy = select_policy(tenant_policy, policy)?;
            let (plan, tools, connections) = (&*plan, &tools, &connections);
            let tenant_policy_ref = &tenant_policy;
            let forecast = Forecast {
                plan,
                tools,
                connections,
                tenant_policy: tenant_policy_ref,
                record,
                trigger,
                outputs,
            };
            let (steps, rollbacks) = forecast.steps(should_stop);
            Ok(DryRun { tenant_policy, steps, rollbacks })
        });
        dry_run.await?
    }
}

/// Replaces the policy, if the request brings its own.
fn select_policy(
    tenant_policy: TenantPolicy,
    policy: Option<PolicyFiles>,
) -> Result<TenantPolicy, EngineError> {
    let Some(files) = policy else { return Ok(tenant_policy) };
    let bundle = PolicyBundle::parse(files).map_err(|error| EngineError::BadPolicy(Box::new(error)))?;
    Ok(TenantPolicy { bundle: TenantBundle::Usable(bundle), ..tenant_policy })
}

fn check_payloads(input: &Value, outputs: &BTreeMap<StepId, Value>) -> Result<(), EngineError> {
    let bad = |what| move |source| EngineError::BadInput { what, source };
    json::check(input).map_err(bad("the input"))?;
    outputs.values().try_for_each(|output| json::check(output).map_err(bad("the output of a step")))
}

#[expect(clippy::expect_used, reason = "the text is a constant, and the test below reads it")]
fn forecast_key() -> IdempotencyKey {
    IdempotencyKey::new("forecast").expect("a word is a key")
}

impl Forecast<'_> {
    /// The result for every step, until `should_stop` returns true.
    fn steps(
        mut self,
        should_stop: &dyn Fn() -> bool,
    ) -> (Vec<StepForecast>, BTreeMap<StepSeq, StepForecast>) {
        let (mut steps, mut rollbacks) = (Vec::new(), BTreeMap::new());
        for (seq, step) in (0_u16..).map(StepSeq).zip(&self.plan.plan().steps) {
            let forecast = if should_stop() { StepForecast::TimedOut } else { self.forecast_step(seq, step) };
            self.apply_step(step, &forecast);
            steps.push(forecast);
            if let Some(Undo::Call(call)) = &step.rollback {
                let rollback =
                    if should_stop() { StepForecast::TimedOut } else { self.rollback(seq, step, call) };
                rollbacks.insert(seq, rollback);
            }
        }
        (steps, rollbacks)
    }

    /// The result for the rollback that the workflow declares for a step.
    fn rollback(&self, seq: StepSeq, step: &PlannedStep, call: &Call) -> StepForecast {
        let missing = self.missing(&step.rollback_reads);
        if !missing.is_empty() {
            return StepForecast::MissingOutputs(missing);
        }
        let Some(template) = self.plan.step(seq).and_then(|step| step.rollback.as_ref()) else {
            return StepForecast::Refused("the plan has no such rollback".to_owned());
        };
        let mut record = self.record.clone();
        record.rollback =
            Some(Rollback { floor: seq, reason: "dry run".to_owned(), ends: RollbackEnds::Failed });
        let undoing =
            Forecast { record, trigger: Arc::clone(&self.trigger), outputs: self.outputs.clone(), ..*self };
        match undoing.propose(step, call, template) {
            Ok(action) if !action.class.calls_out() => StepForecast::NoEffect,
            Ok(action) => {
                let origin = ActionOrigin::DeclaredRollback;
                StepForecast::Evaluated(Box::new(undoing.assess(seq, action, origin)))
            }
            Err(forecast) => forecast,
        }
    }

    fn forecast_step(&mut self, seq: StepSeq, step: &PlannedStep) -> StepForecast {
        let call = match &step.work {
            Work::Call(call) => call,
            Work::Wait { .. } => return StepForecast::WaitsForEvent,
            Work::Gate { requirement, .. } => return StepForecast::RequiresApproval(requirement.clone()),
        };
        let missing = self.missing(&step.reads);
        if !missing.is_empty() {
            let is_local = self.effect_class(call).is_some_and(|class| !class.calls_out());
            return if is_local { StepForecast::NoEffect } else { StepForecast::MissingOutputs(missing) };
        }
        let Some(CompiledWork::Call(template)) = self.plan.step(seq).map(|step| &step.work) else {
            return StepForecast::Refused(format!("unknown tool {}", call.tool));
        };
        match self.propose(step, call, template) {
            Ok(action) if !action.class.calls_out() => self.store_output(step, &action),
            Ok(action) => StepForecast::Evaluated(Box::new(self.assess(seq, action, ActionOrigin::Forward))),
            Err(forecast) => forecast,
        }
    }

    /// A step that computes its output. The output is kept if it is known.
    fn store_output(&mut self, step: &PlannedStep, action: &Action) -> StepForecast {
        if let (TRANSFORM, Some(value)) = (action.tool.as_str(), action.fields.get("value")) {
            self.outputs.entry(step.id.clone()).or_insert_with(|| Arc::new(value.clone()));
        }
        StepForecast::NoEffect
    }

    /// The outputs that are read and not known.
    fn missing(&self, reads: &InputRefs) -> Vec<StepId> {
        let read = reads.steps.iter().filter_map(|seq| self.plan.plan().step(*seq));
        read.map(|step| step.id.clone()).filter(|id| !self.outputs.contains_key(id)).collect()
    }

    fn effect_class(&self, call: &Call) -> Option<EffectClass> {
        self.tools.get(&call.tool)?.effect_class(&call.with)
    }

    /// The exact action of a step, as far as it is known without reading the external system.
    fn propose(&self, step: &PlannedStep, call: &Call, template: &Template) -> Result<Action, StepForecast> {
        let Some(tool) = self.tools.get(&call.tool) else {
            return Err(StepForecast::Refused(format!("unknown tool {}", call.tool)));
        };
        let fields = template
            .bind(&self.scope())
            .map_err(|error| StepForecast::InvalidExpression(error.to_string()))?;
        let request = ProposalRequest {
            run: &self.record.key,
            step: &step.id,
            reverts: self.record.is_rolling_back(),
            has_rollback: policy_input::declares_rollback(self.tools, step),
            fields,
            observed: None,
        };
        let refused =
            |failure: Failure| StepForecast::Refused(format!("{}: {}", failure.code, failure.message));
        let (tenant, connections) = (&self.tenant_policy.tenant, self.connections);
        let resolved =
            connections.resolve(tenant, &self.record.workspace, (&**tool, call.connection.as_ref()));
        let resolved = resolved.map_err(refused)?;
        let tool = connections.connect(&tenant.tenant, tool, resolved.as_ref()).map_err(refused)?;
        let action = tool.propose(request).map_err(refused)?;
        let connection = resolved.as_ref().map(ResolvedConnection::of_action);
        let action = Action { connection, ..action };
        if action.class.calls_out() {
            let invalid = |why| StepForecast::Refused(format!("{}: {why}", failure::ACTION_INVALID));
            action.check().map_err(invalid)?;
        }
        Ok(action)
    }

    fn scope(&self) -> Scope {
        let run = policy_input::run_facts(&self.record);
        Scope { trigger: Some(Arc::clone(&self.trigger)), steps: self.outputs.clone(), run: Arc::new(run) }
    }

    fn assess(&self, seq: StepSeq, action: Action, origin: ActionOrigin) -> EvaluatedAction {
        let plan = self.plan.plan();
        let context = ActionContext {
            plan,
            record: &self.record,
            seq,
            caps: &self.tenant_policy.tenant.caps,
            writes_done: self.record.effects.done,
            origin,
            attempt: 0,
            may_have_happened: false,
            confidence: self.confidence(seq),
            has_later_effect: policy_input::has_later_effect(plan, self.tools, seq),
        };
        let facts = policy_input::facts(&action, &context);
        let bundle = &self.tenant_policy.bundle;
        let evaluable = bundle.usable().zip(facts);
        let explanation = evaluable.map(|(bundle, facts)| bundle.explain(&facts));
        let verdict = match (&explanation, bundle) {
            (Some(explanation), _) => explanation.verdict.clone(),
            (None, TenantBundle::Unusable { hash, why }) => policy::without_bundle(*hash, why),
            (None, TenantBundle::Usable(bundle)) => {
                policy::without_bundle(bundle.hash(), "the plan has no such step")
            }
        };
        EvaluatedAction { verdict: tighten(verdict, &action, &context), action, explanation }
    }

    fn confidence(&self, seq: StepSeq) -> Option<u16> {
        let template = self.plan.step(seq)?.confidence.as_ref()?;
        template.bind(&self.scope()).ok()?.as_number().and_then(thousandths)
    }

    fn class_of(&self, step: &PlannedStep) -> Option<EffectClass> {
        match &step.work {
            Work::Call(call) => self.effect_class(call),
            Work::Wait { .. } | Work::Gate { .. } => None,
        }
    }

    /// Updates the record as if the step succeeded.
    fn apply_step(&mut self, step: &PlannedStep, forecast: &StepForecast) {
        let has_effect = match forecast {
            StepForecast::Evaluated(evaluated) => {
                evaluated.action.class.has_effect() && evaluated.verdict.ruling != Ruling::Deny
            }
            StepForecast::MissingOutputs(_) | StepForecast::InvalidExpression(_) => {
                self.class_of(step).is_some_and(EffectClass::has_effect)
            }
            StepForecast::NoEffect
            | StepForecast::WaitsForEvent
            | StepForecast::RequiresApproval(_)
            | StepForecast::Refused(_)
            | StepForecast::TimedOut => false,
        };
        if has_effect {
            self.record.effects.done = self.record.effects.done.saturating_add(1);
        }
        let approved = matches!(forecast, StepForecast::Evaluated(evaluated)
            if matches!(evaluated.verdict.ruling, Ruling::NeedsApproval(_)));
        if approved {
            self.record.phase = Some(step.phase);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn forecast_key_is_valid() {
        assert_eq!(super::forecast_key().as_str(), "forecast");
    }
}
