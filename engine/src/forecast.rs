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
    Action, Demand, Digest, EffectClass, Failure, IdempotencyKey, Initiator, Ruling, RunRecord, StepId,
    StepSeq, Tenant, TenantId, Verdict, WorkspaceId,
};
use policy::{Bundle, Explanation};
use serde_json::Value;
use store::Store;
use workflow::{CompiledPlan, CompiledWork, Scope};

use crate::error::EngineError;
use crate::{Engine, question};

/// The tool whose output is known before it runs.
const TRANSFORM: &str = "transform";

/// What is known beforehand.
pub struct Forecast<'a> {
    /// The workflow.
    pub plan: &'a CompiledPlan,
    /// What its steps may call.
    pub tools: &'a Toolbox,
    /// What its tenant has settled.
    pub tenant: &'a Tenant,
    /// The policy, or its hash and why it cannot be asked.
    pub bundle: &'a Result<Bundle, (Digest, String)>,
    /// The run as it would be admitted; moved along from step to step.
    pub record: RunRecord,
    /// The run's input.
    pub trigger: Arc<Value>,
    /// Outputs of steps, as far as they are known.
    pub outputs: BTreeMap<StepId, Arc<Value>>,
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
    /// What would come of every step of `plan`, if a run of it were started now with `input`, by the policy that
    /// counts for the tenant. Nothing is run, kept or looked at outside.
    pub(crate) async fn forecast(
        &self,
        tenant: &TenantId,
        plan: &CompiledPlan,
        input: Value,
        by: Initiator,
    ) -> Result<Vec<Foreseen>, EngineError> {
        domain::json::check(&input).map_err(|source| EngineError::BadInput { what: "the input", source })?;
        let tenant = self.tenant(tenant).await?;
        let bundle = self.bundle(&tenant).await?;
        let wish = Admit {
            tenant: tenant.tenant.clone(),
            workspace: WorkspaceId::default(),
            trigger_kind: "forecast".to_owned(),
            record: None,
            key: forecast_key(),
            input: Fingerprint::of(&input),
        };
        let forecast = Forecast {
            plan,
            tools: &self.tools,
            tenant: &tenant,
            bundle: &bundle,
            record: admit(wish, plan.plan(), self.stamp(by)).record,
            trigger: Arc::new(input),
            outputs: BTreeMap::new(),
        };
        Ok(forecast.steps())
    }
}

#[expect(clippy::expect_used, reason = "the text is a constant, and the test below reads it")]
fn forecast_key() -> IdempotencyKey {
    IdempotencyKey::new("forecast").expect("a word is a key")
}

impl Forecast<'_> {
    /// What would come of every step, in their order.
    pub fn steps(mut self) -> Vec<Foreseen> {
        let steps = (0_u16..).map(StepSeq).zip(&self.plan.plan().steps);
        steps
            .map(|(seq, step)| {
                let foreseen = self.foresee(seq, step);
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
            caps: &self.tenant.caps,
            writes_done: self.record.effects.done,
            attempt: 0,
            confidence: self.confidence(seq),
            more_to_come: question::more_to_come(plan, self.tools, seq),
        };
        let facts = question::facts(&action, &around);
        let asked = self.bundle.as_ref().ok().zip(facts);
        let explanation = asked.map(|(bundle, facts)| bundle.explain(&facts));
        let said = match (&explanation, self.bundle) {
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
            Foreseen::NoEffect | Foreseen::Waits | Foreseen::Asks(_) | Foreseen::Refused(_) => false,
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
