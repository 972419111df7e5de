//! A dry run: what policy would say about a step, or about all of them, before anything is run.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Problem;
use domain::{Plan, Reason, Ruling, StepId};
use engine::{Counting, EngineError, Explain, Explained, Foreseen, Judged};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;
use store::Store;
use views::verdict::ruling;

use super::json;
use super::show::Shown;
use crate::at::Visitor;
use crate::layout::token;
use crate::no::{No, notice};
use crate::runs::place;
use crate::text::{Seen, when};

/// What somebody typed into the form.
#[derive(Debug, Deserialize)]
pub(crate) struct Sample {
    #[serde(default)]
    step: String,
    #[serde(default)]
    input: String,
    #[serde(default)]
    outputs: String,
}

impl Sample {
    /// What the form begins with.
    pub(super) fn first(shown: &Shown) -> Self {
        Self { step: String::new(), input: shown.sample(), outputs: "{}".to_owned() }
    }
}

/// What came of a dry run, or why there was none.
pub(super) type Tried = Result<Explained, Problem>;

/// Tries a workflow out with a sample. Nothing is run.
pub(super) async fn tried<S: Store>(
    visitor: &Visitor<S>,
    shown: &Shown,
    sample: &Sample,
) -> Result<Tried, No> {
    let wish = match wish(shown, sample) {
        Ok(wish) => wish,
        Err(problem) => return Ok(Err(problem)),
    };
    match visitor.handle.explain(wish).await {
        Ok(explained) => Ok(Ok(explained)),
        Err(error @ (EngineError::BadInput { .. } | EngineError::Refused(_))) => Ok(Err(error.into())),
        Err(error) => Err(error.into()),
    }
}

fn wish(shown: &Shown, sample: &Sample) -> Result<Explain, Problem> {
    let plan = shown.plan.plan();
    if !sample.step.is_empty() {
        known(plan, &sample.step)?;
    }
    Ok(Explain {
        plan: Arc::clone(&shown.plan),
        trigger_kind: "api".to_owned(),
        input: json("the input", &sample.input)?,
        outputs: outputs(plan, &sample.outputs)?,
        policy: None,
    })
}

/// What earlier steps give, by step.
fn outputs(plan: &Plan, text: &str) -> Result<BTreeMap<StepId, Value>, Problem> {
    let Value::Object(outputs) = json("what earlier steps give", text)? else {
        return Err(Problem::bad_request("what earlier steps give is an object, with a field for each step"));
    };
    outputs.into_iter().map(|(step, output)| Ok((known(plan, &step)?, output))).collect()
}

fn known(plan: &Plan, step: &str) -> Result<StepId, Problem> {
    let found = plan.steps.iter().find(|known| known.id.as_str() == step);
    found.map(|found| found.id.clone()).ok_or_else(|| Problem::bad_request("the workflow has no such step"))
}

/// The form, and what came of it.
pub(super) fn section<S: Store>(
    visitor: &Visitor<S>,
    shown: &Shown,
    sample: &Sample,
    tried: Option<&Tried>,
) -> Markup {
    let plan = shown.plan.plan();
    html! {
        section aria-labelledby="dry-run" {
            h2 #dry-run { "Dry run" }
            p.soft { "What policy would say about a step of a run with this input, as if all before it had been done. Nothing is run, and nothing outside is looked at." }
            @if let Some(Err(problem)) = tried { (notice(problem)) }
            form.stack method="post" action={ (shown.address()) "#dry-run" } {
                (token(visitor))
                label for="step" { "Step" }
                select #step name="step" {
                    option value="" { "every step" }
                    @for step in &plan.steps {
                        option value=(step.id) selected[step.id.as_str() == sample.step] { (step.id) }
                    }
                }
                label for="input" { "Input, as JSON" }
                textarea #input name="input" rows="5" spellcheck="false" { (sample.input) }
                label for="outputs" { "What earlier steps give, as JSON with a field for each step" }
                textarea #outputs name="outputs" rows="3" spellcheck="false" { (sample.outputs) }
                button.primary type="submit" { "Try it out" }
            }
            @if let Some(Ok(explained)) = tried { (outcome(visitor, plan, sample, explained)) }
        }
    }
}

fn outcome<S: Store>(
    visitor: &Visitor<S>,
    plan: &Plan,
    sample: &Sample,
    Explained { counting, steps }: &Explained,
) -> Markup {
    let wanted = |step: &StepId| sample.step.is_empty() || step.as_str() == sample.step;
    html! {
        h3 { "What would come of it" }
        (asked(visitor, counting))
        table.cards {
            thead { tr {
                th scope="col" { "Step" } th scope="col" { "What would come of it" } th scope="col" { "Rule" } th scope="col" { "Where it stands" }
            } }
            tbody { @for (step, foreseen) in plan.steps.iter().zip(steps).filter(|(step, _)| wanted(&step.id)) { tr {
                td data-label="Step" { (step.id) }
                td.long data-label="What would come of it" { (told(foreseen)) }
                td.long data-label="Rule" { (rules(foreseen)) }
                td data-label="Where it stands" { @for reason in because(foreseen) { div { (place(reason)) } } }
            } } }
        }
    }
}

/// Which policy was asked.
fn asked<S: Store>(visitor: &Visitor<S>, counting: &Counting) -> Markup {
    let hash = counting.hash();
    html! {
        p.soft {
            "By policy " code title=(hash) { (hash.short()) }
            @match (&counting.tenant.policy, &counting.tenant.policy_settled) {
                (None, _) => ", which ships with the program.",
                (Some(_), Some(settled)) => {
                    ", which " (Seen(&settled.by.id)) " settled on " (when(settled.at, visitor.handle.now())) "."
                }
                (Some(_), None) => ", which the tenant has settled on.",
            }
        }
    }
}

fn because(foreseen: &Foreseen) -> &[Reason] {
    match foreseen {
        Foreseen::Judged(judged) => &judged.verdict.because,
        _ => &[],
    }
}

/// The rules that led to the verdict, and those that held and did not decide.
fn rules(foreseen: &Foreseen) -> Markup {
    let because = because(foreseen);
    html! {
        @for reason in because { div { code { (Seen(&reason.rule)) } ": " (Seen(&reason.says)) } }
        @for (rule, set) in held(foreseen) {
            @if because.iter().all(|reason| reason.rule != rule) {
                div.soft { code { (Seen(rule)) } " held as well (" (set) ")" }
            }
        }
    }
}

/// Every rule of the policy that held, with the set it adds to.
fn held(foreseen: &Foreseen) -> Vec<(&str, &'static str)> {
    let Foreseen::Judged(judged) = foreseen else { return Vec::new() };
    let rules = judged.explanation.iter().flat_map(|explanation| &explanation.rules);
    rules.filter(|rule| rule.fired()).map(|rule| (rule.rule.as_str(), rule.set.name())).collect()
}

fn told(foreseen: &Foreseen) -> Markup {
    html! {
        @match foreseen {
            Foreseen::NoEffect => "Changes nothing outside; policy is not asked.",
            Foreseen::Waits => "Waits for an event; policy is not asked.",
            Foreseen::Asks(demand) => { (ruling(&Ruling::NeedsApproval(demand.clone()))) ": the workflow itself asks." }
            Foreseen::Reads(missing) => {
                "Not known yet: it reads what "
                (missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")) " gives."
            }
            Foreseen::Unbound(why) => { "Not known: " (Seen(why)) }
            Foreseen::Refused(why) => { "Would fail before policy is asked: " (Seen(why)) }
            Foreseen::OutOfTime => "Not known: the steps before it took all the time there is.",
            Foreseen::Judged(judged) => (judged_told(judged)),
        }
    }
}

fn judged_told(Judged { action, verdict, .. }: &Judged) -> Markup {
    html! { strong { (ruling(&verdict.ruling)) } " on " (Seen(&action.target)) }
}
