//! A plan with compiled templates. The engine caches it by the hash of the plan.

use std::sync::Arc;

use domain::plan::{Undo, Work};
use domain::{Plan, PlannedStep, StepSeq};
use serde_json::Value;

use crate::expression::Meter;
use crate::template::{BindError, InvalidTemplate, Scope, Template};
use crate::text::Text;

/// A plan and the compiled templates of its steps.
#[derive(Debug)]
pub struct CompiledPlan {
    plan: Plan,
    when: Option<Template>,
    concurrency_key: Option<MessageTemplate>,
    steps: Vec<CompiledStep>,
}

#[derive(Debug)]
pub struct CompiledStep {
    pub work: CompiledWork,
    /// The parameters of the rollback call, if the workflow defines one.
    pub rollback: Option<Template>,
    pub confidence: Option<Template>,
}

#[derive(Debug)]
pub enum CompiledWork {
    /// The parameters of a call.
    Call(Template),
    Wait,
    /// The message to the approvers.
    Gate(MessageTemplate),
}

/// A template whose value is always a string.
#[derive(Debug)]
pub struct MessageTemplate {
    text: Text,
}

/// Why a plan does not compile. A plan from [`crate::parse()`] always compiles.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compile {part}")]
pub struct InvalidPlan {
    pub part: String,
    #[source]
    pub source: InvalidTemplate,
}

impl CompiledPlan {
    pub fn compile(plan: Plan) -> Result<Self, InvalidPlan> {
        let compiled = |step: &PlannedStep| {
            let part = || format!("step `{}`", step.id);
            compile_step(step).map_err(|source| InvalidPlan { part: part(), source })
        };
        let steps = plan.steps.iter().map(compiled).collect::<Result<_, _>>()?;
        let when = plan.triggered_by.as_ref().and_then(|by| by.when.clone()).map(Value::String);
        let when = when.as_ref().map(Template::compile).transpose();
        let when = when.map_err(|source| InvalidPlan { part: "`trigger`".to_owned(), source })?;
        let concurrency_key =
            plan.concurrency.as_ref().map(|rule| MessageTemplate::compile(&rule.key)).transpose();
        let concurrency_key =
            concurrency_key.map_err(|source| InvalidPlan { part: "`concurrency`".to_owned(), source })?;
        Ok(Self { plan, when, concurrency_key, steps })
    }

    /// The concurrency key of a run that the event starts, if the workflow has one.
    pub fn concurrency_key(&self, event: &Arc<Value>) -> Option<Result<String, BindError>> {
        let scope = Scope { trigger: Some(Arc::clone(event)), ..Scope::default() };
        self.concurrency_key.as_ref().map(|key| key.bind(&scope))
    }

    /// Whether the `when` condition of the trigger is true for `event`.
    pub fn matches(&self, event: &Arc<Value>) -> Result<bool, BindError> {
        let Some(when) = &self.when else { return Ok(true) };
        let scope = Scope { trigger: Some(Arc::clone(event)), ..Scope::default() };
        Ok(when.bind(&scope)? == Value::Bool(true))
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn step(&self, seq: StepSeq) -> Option<&CompiledStep> {
        self.steps.get(seq.index())
    }
}

impl MessageTemplate {
    fn compile(message: &str) -> Result<Self, InvalidTemplate> {
        let invalid = |(_, error)| InvalidTemplate::Expression { text: message.to_owned(), error };
        Text::compile(message).map(|text| Self { text }).map_err(invalid)
    }

    /// The message for `scope`.
    pub fn bind(&self, scope: &Scope) -> Result<String, BindError> {
        self.text.bind_text(scope, &Arc::new(Meter::default()))
    }
}

fn compile_step(step: &PlannedStep) -> Result<CompiledStep, InvalidTemplate> {
    let work = match &step.work {
        Work::Call(call) => CompiledWork::Call(Template::compile(&call.with)?),
        Work::Wait { .. } => CompiledWork::Wait,
        Work::Gate { message, .. } => CompiledWork::Gate(MessageTemplate::compile(message)?),
    };
    let rollback = match &step.rollback {
        Some(Undo::Call(call)) => Some(Template::compile(&call.with)?),
        Some(Undo::Auto) | None => None,
    };
    let confidence = step.confidence.as_ref().map(Template::compile).transpose()?;
    Ok(CompiledStep { work, rollback, confidence })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"
workflow: w
version: 1
steps:
  - { id: make, tool: transform, with: { value: "${ trigger.n }" },
      rollback: { tool: transform, with: { value: "${ steps.make.id }" } } }
  - { id: wait, tool: wait.event, with: { event: e } }
  - { id: ask, tool: approval.gate, with: { message: "${ trigger.n }" } }
"#;

    fn compiled() -> CompiledPlan {
        let tools = ["transform".parse().unwrap()].into();
        CompiledPlan::compile(crate::parse(FILE, &tools).unwrap()).unwrap()
    }

    fn scope() -> Scope {
        Scope {
            trigger: Some(Arc::new(json!({"n": 7}))),
            steps: [("make".parse().unwrap(), Arc::new(json!({"id": "x"})))].into(),
            ..Scope::default()
        }
    }

    #[test]
    fn every_step_has_its_templates() {
        let compiled = compiled();
        let step = |seq| compiled.step(StepSeq(seq)).unwrap();
        let CompiledWork::Call(with) = &step(0).work else { panic!("the first step is a call") };
        assert_eq!(with.bind(&scope()), Ok(json!({"value": 7})));
        assert_eq!(step(0).rollback.as_ref().unwrap().bind(&scope()), Ok(json!({"value": "x"})));
        assert!(matches!(step(1).work, CompiledWork::Wait));
        assert!(compiled.step(StepSeq(3)).is_none());
    }

    #[test]
    fn gate_message_is_always_a_string() {
        let compiled = compiled();
        let CompiledWork::Gate(message) = &compiled.step(StepSeq(2)).unwrap().work else {
            panic!("the third step is a gate")
        };
        assert_eq!(message.bind(&scope()), Ok("7".to_owned()));
    }

    #[test]
    fn invalid_plan_error_names_the_step() {
        let mut plan = compiled().plan().clone();
        plan.steps[2].work = Work::Gate {
            message: "${ nope }".to_owned(),
            expires_after: domain::Millis::hours(1),
            on_reject: domain::plan::OnReject::Fail,
            requirement: domain::ApprovalRequirement::default(),
        };
        assert_eq!(CompiledPlan::compile(plan).unwrap_err().part, "step `ask`");
    }
}
