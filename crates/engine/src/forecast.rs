//! What policy would say about every step of a workflow, without running any.
//!
//! Each call is bound, proposed and judged as a worker would do it on the first attempt, but nothing outside
//! is looked at. Steps come in their order, as if everything before them had been allowed and done.

use std::collections::BTreeMap;
use std::sync::Arc;

use connectors::{Ask, Toolbox};
use domain::command::{Admit, admit};
use domain::payload::Fingerprint;
use domain::plan::{Call, PlannedStep, Work};
use domain::validation::{Circumstances, thousandths, tighten};
use domain::{
    Action, Demand, EffectClass, Failure, IdempotencyKey, Initiator, Ruling, RunRecord, StepId, StepSeq,
    TenantId, Verdict, WorkspaceId, json,
};
use policy::{Bundle, Explanation};
use serde_json::Value;
use store::{PolicyFiles, Store};
use workflow::{CompiledPlan, CompiledWork, Scope};

use crate::error::EngineError;
use crate::policies::Counting;
use crate::{Engine, question};

/// The tool whose output is known before it runs.
const TRANSFORM: &str = "transform";

/// What is to be foreseen.
#[derive(Clone)]
pub struct Explain {
    /// The workflow.
    pub plan: Arc<CompiledPlan>,
    /// What kind of thing would start it.
    pub trigger_kind: String,
    /// The run's input.
    pub input: Value,
    /// Samples of what steps give.
    pub outputs: BTreeMap<StepId, Value>,
    /// The policy to ask; the one that counts, if absent.
    pub policy: Option<PolicyFiles>,
}

/// What would come of a workflow.
pub struct Explained {
    /// What the tenant has settled, and the policy that was asked.
    pub counting: Counting,
    /// What would come of each step, in their order.
    pub steps: Vec<Foreseen>,
}

/// What is known beforehand.
struct Forecast<'a> {
    plan: &'a CompiledPlan,
    tools: &'a Toolbox,
    counting: &'a Counting,
    /// The run as it would be admitted; moved along from step to step.
    record: RunRecord,
    trigger: Arc<Value>,
    /// Outputs of steps, as far as they are known.
    outputs: BTreeMap<StepId, Arc<Value>>,
}

/// What would come of a step.
pub enum Foreseen {
    /// It changes nothing outside, so policy is not asked.
    NoEffect,
    /// It waits for an event.
    Waits,
    /// The workflow itself asks people.
    Asks(Demand),
    /// It reads outputs that are not there yet.
    Reads(Vec<StepId>),
    /// An expression of it has no value with what is known.
    Unbound(String),
    /// The tool would refuse the call.
    Refused(String),
    /// Policy would say this.
    Judged(Box<Judged>),
    /// The steps before it took all the time there is for thinking about a workflow.
    OutOfTime,
}

/// An action and what is said about it.
pub struct Judged {
    /// The action, as far as it can be said without a look outside.
    pub action: Action,
    /// The verdict that counts: of policy and the runtime.
    pub verdict: Verdict,
    /// What policy alone said, rule by rule; absent if there is none to be asked.
    pub explanation: Option<Explanation>,
}

impl<S: Store> Engine<S> {
    /// What would come of every step of a workflow, if a run of it were started now by `by`. Nothing is run, kept or
    /// looked at outside.
    pub async fn explain(
        &self,
        tenant: &TenantId,
        wish: Explain,
        by: Initiator,
    ) -> Result<Explained, EngineError> {
        let Explain { plan, trigger_kind, input, outputs, policy } = wish;
        must_be_payloads(&input, &outputs)?;
        let counting = self.counting(tenant).await?;
        let admit_it = Admit {
            tenant: tenant.clone(),
            workspace: WorkspaceId::default(),
            trigger_kind,
            record: None,
            trace: None,
            key: forecast_key(),
            input: Fingerprint::of(&input),
        };
        let record = admit(admit_it, plan.plan(), self.stamp(by)).record;
        let (tools, trigger) = (self.tools.clone(), Arc::new(input));
        let outputs = outputs.into_iter().map(|(step, output)| (step, Arc::new(output))).collect();
        let foreseen = self.policy_pool(tenant, move |over| {
            let counting = asked(counting, policy)?;
            let (plan, tools) = (&*plan, &tools);
            let steps = Forecast { plan, tools, counting: &counting, record, trigger, outputs }.steps(over);
            Ok(Explained { counting, steps })
        });
        foreseen.await?
    }
}

/// The same with the policy that is to be asked, if that is another one.
fn asked(counting: Counting, policy: Option<PolicyFiles>) -> Result<Counting, EngineError> {
    let Some(files) = policy else { return Ok(counting) };
    let bundle = Bundle::parse(files).map_err(|error| EngineError::BadPolicy(Box::new(error)))?;
    Ok(Counting { bundle: Ok(bundle), ..counting })
}

fn must_be_payloads(input: &Value, outputs: &BTreeMap<StepId, Value>) -> Result<(), EngineError> {
    let bad = |what| move |source| EngineError::BadInput { what, source };
    json::check(input).map_err(bad("the input"))?;
    outputs.values().try_for_each(|output| json::check(output).map_err(bad("the output of a step")))
}

#[expect(clippy::expect_used, reason = "the text is a constant, and the test below reads it")]
fn forecast_key() -> IdempotencyKey {
    IdempotencyKey::new("forecast").expect("a word is a key")
}

impl Forecast<'_> {
    /// What would come of every step, in their order, as far as that is found out before `over` says so.
    fn steps(mut self, over: &dyn Fn() -> bool) -> Vec<Foreseen> {
        let steps = (0_u16..).map(StepSeq).zip(&self.plan.plan().steps);
        steps
            .map(|(seq, step)| {
                let foreseen = if over() { Foreseen::OutOfTime } else { self.foresee(seq, step) };
                self.move_on(step, &foreseen);
                foreseen
            })
            .collect()
    }

    fn foresee(&mut self, seq: StepSeq, step: &PlannedStep) -> Foreseen {
        let call = match &step.work {
            Work::Call(call) => call,
            Work::Wait { .. } => return Foreseen::Waits,
            Work::Gate { demand, .. } => return Foreseen::Asks(demand.clone()),
        };
        let missing = self.missing(step);
        let reads_only = self.declares(call).is_some_and(|class| !class.has_effect());
        if call.tool.as_str() != TRANSFORM && reads_only {
            return Foreseen::NoEffect;
        }
        if !missing.is_empty() {
            return if reads_only { Foreseen::NoEffect } else { Foreseen::Reads(missing) };
        }
        match self.proposed(seq, step, call) {
            Ok(action) if !action.class.has_effect() => self.computed(step, &action),
            Ok(action) => Foreseen::Judged(Box::new(self.judged(seq, action))),
            Err(unforeseen) => unforeseen,
        }
    }

    /// A step without an effect; what it gives is remembered if that is known.
    fn computed(&mut self, step: &PlannedStep, action: &Action) -> Foreseen {
        if let (TRANSFORM, Some(value)) = (action.tool.as_str(), action.fields.get("value")) {
            self.outputs.entry(step.id.clone()).or_insert_with(|| Arc::new(value.clone()));
        }
        Foreseen::NoEffect
    }

    /// The outputs that the step reads and nobody knows yet.
    fn missing(&self, step: &PlannedStep) -> Vec<StepId> {
        let read = step.reads.steps.iter().filter_map(|seq| self.plan.plan().step(*seq));
        read.map(|step| step.id.clone()).filter(|id| !self.outputs.contains_key(id)).collect()
    }

    fn declares(&self, call: &Call) -> Option<EffectClass> {
        self.tools.get(&call.tool)?.declares(&call.with)
    }

    /// The exact action of a step, as far as it can be said without a look outside.
    fn proposed(&self, seq: StepSeq, step: &PlannedStep, call: &Call) -> Result<Action, Foreseen> {
        let compiled = self.plan.step(seq).map(|step| &step.work);
        let (Some(CompiledWork::Call(template)), Some(tool)) = (compiled, self.tools.get(&call.tool)) else {
            return Err(Foreseen::Refused(format!("there is no tool {}", call.tool)));
        };
        let fields = template.bind(&self.scope()).map_err(|error| Foreseen::Unbound(error.to_string()))?;
        let ask = Ask { run: &self.record.key, step: &step.id, undo: false, fields, found: None };
        let in_words = |failure: Failure| Foreseen::Refused(format!("{}: {}", failure.code, failure.message));
        let action = tool.propose(ask).map_err(in_words)?;
        action.check().map_err(Foreseen::Refused)?;
        Ok(action)
    }

    fn scope(&self) -> Scope {
        let run = question::run_facts(&self.record);
        Scope { trigger: Some(Arc::clone(&self.trigger)), steps: self.outputs.clone(), run: Arc::new(run) }
    }

    fn judged(&self, seq: StepSeq, action: Action) -> Judged {
        let plan = self.plan.plan();
        let around = Circumstances {
            plan,
            record: &self.record,
            seq,
            caps: &self.counting.tenant.caps,
            writes_done: self.record.effects.done,
            attempt: 0,
            confidence: self.confidence(seq),
            more_to_come: question::more_to_come(plan, self.tools, seq),
        };
        let facts = question::facts(&action, &around);
        let bundle = &self.counting.bundle;
        let asked = bundle.as_ref().ok().zip(facts);
        let explanation = asked.map(|(bundle, facts)| bundle.explain(&facts));
        let said = match (&explanation, bundle) {
            (Some(explanation), _) => explanation.verdict.clone(),
            (None, Err((hash, why))) => policy::without_bundle(*hash, why),
            (None, Ok(bundle)) => policy::without_bundle(bundle.hash(), "it was not asked"),
        };
        Judged { verdict: tighten(said, &action, &around), action, explanation }
    }

    fn confidence(&self, seq: StepSeq) -> Option<u16> {
        let template = self.plan.step(seq)?.confidence.as_ref()?;
        template.bind(&self.scope()).ok()?.as_number().and_then(thousandths)
    }

    fn class_of(&self, step: &PlannedStep) -> Option<EffectClass> {
        match &step.work {
            Work::Call(call) => self.declares(call),
            Work::Wait { .. } | Work::Gate { .. } => None,
        }
    }

    /// The run after the step, if all went well.
    fn move_on(&mut self, step: &PlannedStep, foreseen: &Foreseen) {
        let acts = match foreseen {
            Foreseen::Judged(judged) => judged.verdict.ruling != Ruling::Deny,
            Foreseen::Reads(_) | Foreseen::Unbound(_) => {
                self.class_of(step).is_some_and(EffectClass::has_effect)
            }
            Foreseen::NoEffect
            | Foreseen::Waits
            | Foreseen::Asks(_)
            | Foreseen::Refused(_)
            | Foreseen::OutOfTime => false,
        };
        if acts {
            self.record.effects.done = self.record.effects.done.saturating_add(1);
        }
        let approved = matches!(foreseen, Foreseen::Judged(judged)
            if matches!(judged.verdict.ruling, Ruling::NeedsApproval(_)));
        if approved {
            self.record.phase = Some(step.phase);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_forecast_has_a_key() {
        assert_eq!(super::forecast_key().as_str(), "forecast");
    }
}
