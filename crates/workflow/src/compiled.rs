//! A plan with its templates compiled: what the engine keeps, by the plan's hash.

use std::sync::Arc;

use domain::plan::{Undo, Work};
use domain::{Plan, PlannedStep, StepSeq};
use serde_json::Value;

use crate::expression::Meter;
use crate::scope::Scope;
use crate::template::{ExpressionError, InvalidTemplate, Template};
use crate::text::Text;

/// A plan and, step by step, its compiled templates.
#[derive(Debug)]
pub struct CompiledPlan {
    plan: Plan,
    when: Option<Template>,
    ticket: Option<Message>,
    steps: Vec<CompiledStep>,
}

/// A step's compiled templates.
#[derive(Debug)]
pub struct CompiledStep {
    /// What it does.
    pub work: CompiledWork,
    /// The fields of the call that undoes it, if the workflow names one.
    pub rollback: Option<Template>,
    /// How sure its proposer is.
    pub confidence: Option<Template>,
}

/// What a step does, compiled.
#[derive(Debug)]
pub enum CompiledWork {
    /// The fields of a call.
    Call(Template),
    /// Nothing to bind.
    Wait,
    /// What a person is asked.
    Gate(Message),
}

/// A text for a person.
#[derive(Debug)]
pub struct Message {
    text: Text,
}

/// Why a plan cannot be compiled. A plan that [`crate::parse()`] made always can.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("compile {part}")]
pub struct InvalidPlan {
    /// Which part of it.
    pub part: String,
    /// What is wrong with it.
    #[source]
    pub source: InvalidTemplate,
}

impl CompiledPlan {
    /// Compiles every template of `plan`.
    pub fn compile(plan: Plan) -> Result<Self, InvalidPlan> {
        let compiled = |step: &PlannedStep| {
            let part = || format!("step `{}`", step.id);
            compile_step(step).map_err(|source| InvalidPlan { part: part(), source })
        };
        let steps = plan.steps.iter().map(compiled).collect::<Result<_, _>>()?;
        let when = plan.triggered_by.as_ref().and_then(|by| by.when.clone()).map(Value::String);
        let when = when.as_ref().map(Template::compile).transpose();
        let when = when.map_err(|source| InvalidPlan { part: "`trigger`".to_owned(), source })?;
        let ticket = plan.ticket.as_ref().map(|rule| Message::compile(&rule.of)).transpose();
        let ticket = ticket.map_err(|source| InvalidPlan { part: "`ticket`".to_owned(), source })?;
        Ok(Self { plan, when, ticket, steps })
    }

    /// What names the ticket of a run that is started by what came, if the workflow asks for one.
    pub fn ticket(&self, came: &Arc<Value>) -> Option<Result<String, ExpressionError>> {
        let scope = Scope { trigger: Some(Arc::clone(came)), ..Scope::default() };
        self.ticket.as_ref().map(|ticket| ticket.bind(&scope))
    }

    /// Whether what came is what the workflow is started by.
    pub fn wants(&self, came: &Arc<Value>) -> Result<bool, ExpressionError> {
        let Some(when) = &self.when else { return Ok(true) };
        let scope = Scope { trigger: Some(Arc::clone(came)), ..Scope::default() };
        Ok(when.bind(&scope)? == Value::Bool(true))
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The templates of the step at `seq`, if the plan goes that far.
    pub fn step(&self, seq: StepSeq) -> Option<&CompiledStep> {
        self.steps.get(seq.index())
    }
}

impl Message {
    fn compile(message: &str) -> Result<Self, InvalidTemplate> {
        let fault = |(_, fault)| InvalidTemplate::Expression { text: message.to_owned(), fault };
        Text::compile(message).map(|text| Self { text }).map_err(fault)
    }

    /// The text over `scope`.
    pub fn bind(&self, scope: &Scope) -> Result<String, ExpressionError> {
        self.text.bind_text(scope, &Arc::new(Meter::default()))
    }
}

fn compile_step(step: &PlannedStep) -> Result<CompiledStep, InvalidTemplate> {
    let work = match &step.work {
        Work::Call(call) => CompiledWork::Call(Template::compile(&call.with)?),
        Work::Wait { .. } => CompiledWork::Wait,
        Work::Gate { message, .. } => CompiledWork::Gate(Message::compile(message)?),
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
    fn each_step_has_its_templates() {
        let compiled = compiled();
        let step = |seq| compiled.step(StepSeq(seq)).unwrap();
        let CompiledWork::Call(with) = &step(0).work else { panic!("the first step is a call") };
        assert_eq!(with.bind(&scope()), Ok(json!({"value": 7})));
        assert_eq!(step(0).rollback.as_ref().unwrap().bind(&scope()), Ok(json!({"value": "x"})));
        assert!(matches!(step(1).work, CompiledWork::Wait));
        assert!(compiled.step(StepSeq(3)).is_none());
    }

    #[test]
    fn a_question_is_a_text_even_if_it_is_one_expression() {
        let compiled = compiled();
        let CompiledWork::Gate(message) = &compiled.step(StepSeq(2)).unwrap().work else {
            panic!("the third step is a gate")
        };
        assert_eq!(message.bind(&scope()), Ok("7".to_owned()));
    }

    #[test]
    fn a_plan_that_no_file_made_is_refused_by_step() {
        let mut plan = compiled().plan().clone();
        plan.steps[2].work = Work::Gate {
            message: "${ nope }".to_owned(),
            expires_after: domain::Millis::hours(1),
            on_reject: domain::plan::OnReject::Fail,
            demand: domain::Demand::default(),
        };
        assert_eq!(CompiledPlan::compile(plan).unwrap_err().part, "step `ask`");
    }
}
